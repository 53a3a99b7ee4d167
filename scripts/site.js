// SPDX-License-Identifier: Apache-2.0
// What the theme's script adds to a page, for whoever does not use a pointer: buttons on code are no landmarks, and a
// table that is wider than its place can be scrolled by keys.
function mend() {
  for (const each of document.querySelectorAll("nav.md-code__nav")) each.setAttribute("role", "none");
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
}
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", mend);
mend();
