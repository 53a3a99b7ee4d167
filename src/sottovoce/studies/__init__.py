# SPDX-License-Identifier: Apache-2.0
"""The paper, claim by claim: each study is one file with a `Config`, a `Result` and `run`; nothing is drawn here."""
