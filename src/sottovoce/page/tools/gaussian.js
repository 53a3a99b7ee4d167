// SPDX-License-Identifier: Apache-2.0
// What a Gaussian mechanism gives away, as a function of mu alone: the formulas of sottovoce.gaussian.
//
//     u = ε/μ − μ/2,  v = ε/μ + μ/2,  R(x) = Φ(−x)/φ(x),  δ(ε) = φ(u)·(R(u) − R(v)).
//
// log δ is concave in ε, so a tangent never meets its target on the unsafe side of the root. The ends below are
// moved outwards by MARGIN, more than fifty times the largest error seen. What a person is shown is the upper end,
// rounded up.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.gaussian = (() => {
  const MARGIN = 1e-10;
  const ROOT_TWO_PI = Math.sqrt(2 * Math.PI);
  const FAR = 1e150;

  // Chebyshev coefficients of (x + 4)·R(x) in t = (x − 4)/(x + 4), for x from 0 to infinity.
  const MILLS = [
    2.4325604285150404, -1.8842545745794834, 0.5569566490963817, -0.12161597214420457,
    0.017360708143727772, -0.0008036212007299657, -0.0002520349348054353, 4.7383719270581175e-05,
    2.5325891365988257e-06, -1.5404069839913e-06, -8.474960630061696e-09, 5.185338601094672e-08,
    -2.8281293276602497e-10, -1.9486566378891076e-09, -2.491945496827567e-11, 7.957248719448846e-11,
    4.618414179155219e-12, -3.290856124224385e-12, -4.36538404380973e-13, 1.2300711839232774e-13,
    3.2414173582086784e-14, -3.0532395587325663e-15, -2.0183740275707353e-15, -7.170195501422588e-17,
    1.0169552398038542e-16,
  ];

  function mills(x) {
    if (x < 0) return ROOT_TWO_PI * Math.exp((x * x) / 2) - mills(-x);
    const t = x < FAR ? (x - 4) / (x + 4) : 1;
    let next = 0;
    let after = 0;
    for (let k = MILLS.length - 1; k > 0; k--) [next, after] = [2 * t * next - after + MILLS[k], next];
    return (t * next - after + MILLS[0]) / (x + 4);
  }

  // Around the midpoint x, R(x − h) − R(x + h) = 2 Σ_{k odd} h^k M_k/k!, M_k = |R⁽ᵏ⁾(x)|: positive terms, where the
  // difference itself would cancel. Both functions return the difference over 2h.
  function gapByRecurrence(x, h) {
    let before = mills(x);
    let moment = 1 - x * before;
    let gap = moment;
    let factor = 1;
    for (let k = 2; k < 18; k++) {
      [before, moment] = [moment, (k - 1) * before - x * moment];
      factor *= h / k;
      if (k % 2) gap += factor * moment;
    }
    return gap;
  }

  function gapByContinuedFraction(x, h) {
    const last = 33;
    let ratio = (Math.sqrt(x * x + 4 * (last + 1)) - x) / 2;
    let series = 1;
    for (let k = last; k > 1; k--) {
      const step = 1 / (x + ratio);
      ratio = k * step;
      series *= h * step;
      if (k % 2 === 0) series += 1;
    }
    return (mills(x) * series) / (x + ratio);
  }

  /** log δ at finite mu > 0 and ε ≥ 0, and −dε/d(log δ). */
  function profile(mu, epsilon) {
    const x = Math.min(epsilon / mu, FAR);
    const h = mu / 2;
    const u = x - h;
    const millsV = mills(x + h);
    if (u < 0 && mu >= 1) {
      // 1 − δ is a sum of positive terms.
      const density = Math.exp((-u * u) / 2) / ROOT_TWO_PI;
      const rest = density * (mills(-u) + millsV);
      return { logDelta: Math.log1p(-rest), slope: (1 - rest) / (density * millsV) };
    }
    let gap;
    if (h > 0.1 * Math.max(2, x)) gap = (mills(u) - millsV) / mu;
    else gap = x < 3.5 ? gapByRecurrence(x, h) : gapByContinuedFraction(x, h);
    const logDelta = (-u * u) / 2 + Math.log(gap / ROOT_TWO_PI) + Math.log(mu);
    return { logDelta, slope: (gap * mu) / millsV };
  }

  /** Both ends of ε at the given mu and δ: the root of log δ(ε) = log δ, moved outwards by the margin. */
  function ends(mu, delta) {
    if (!(mu >= 0) || !(delta > 0 && delta < 1)) return { lower: 0, upper: Infinity };
    if (mu === 0) return { lower: 0, upper: 0 };
    const target = Math.log(delta);
    // Φ(−z) ≤ exp(−z²/2) puts the root left of this ceiling, which is what is left for huge mu.
    const ceiling = mu * (Math.sqrt(-2 * target) + mu / 2) * (1 + MARGIN);
    if (!(mu < 1e7)) return { lower: 0, upper: ceiling };
    const slack = MARGIN * mu * Math.max(1, mu) * 0.1;
    const start = profile(mu, 0).logDelta;
    if (target >= start + 1e-12) return { lower: 0, upper: 0 };
    let root = ceiling;
    let settled = false;
    for (let k = 0; k < 200 && !settled; k++) {
      const { logDelta, slope } = profile(mu, root);
      const step = (logDelta - target) * slope;
      if (!Number.isFinite(step)) return { lower: 0, upper: ceiling };
      const next = Math.min(Math.max(root + step, 0), ceiling);
      settled = Math.abs(next - root) <= 1e-13 * next + slack * 1e-3;
      root = next;
    }
    if (!settled) return { lower: 0, upper: ceiling };
    const upper = Math.min(root * (1 + MARGIN) + slack, ceiling);
    return { lower: Math.max(0, root * (1 - MARGIN) - slack), upper };
  }

  const epsilonUpper = (mu, delta) => ends(mu, delta).upper;

  /** Both ends of ε for a pair: μ = factor·Δ/noise. */
  function pairEnds(lowerSquared, upperSquared, factor, noise, delta) {
    const low = (factor * Math.sqrt(lowerSquared)) / noise;
    const high = (factor * Math.sqrt(upperSquared)) / noise;
    const above = ends(high, delta).upper;
    const below = low === high ? ends(high, delta).lower : ends(low, delta).lower;
    return { lower: Math.min(below, above), upper: above };
  }

  /** A noise multiplier, rounded up to six digits, at which ε of this Δ² stays within the target; null if none is found. */
  function noiseFor(upperSquared, factor, targetEpsilon, delta) {
    const enough = (noise) => pairEnds(upperSquared, upperSquared, factor, noise, delta).upper <= targetEpsilon;
    let high = 1;
    while (!enough(high)) if ((high *= 4) > 1e12) return null;
    let low = high;
    while (enough(low)) if ((low /= 4) < 1e-12) return null;
    for (let k = 0; k < 60; k++) {
      const middle = Math.sqrt(low * high);
      if (enough(middle)) high = middle;
      else low = middle;
    }
    const rounded = Number(roundUp(high, 6));
    return enough(rounded) ? rounded : null;
  }

  /** How often the best guess about a record is right, at most: Φ(μ/2), in percent. */
  function guessing(mu) {
    const tail = (Math.exp((-mu * mu) / 8) / ROOT_TWO_PI) * mills(mu / 2);
    return Math.min(100, 100 * (1 - tail) * (1 + MARGIN));
  }

  /** Whether the decimal number in `text` lies below (−1), at (0) or above (1) the float; 0.1 lies below its float. */
  function compared(text, value, digits) {
    if (Number(text) !== value) return Number(text) < value ? -1 : 1;
    const exact = value.toExponential(40).split("e")[0];
    const short = value.toExponential(digits - 1).split("e")[0].padEnd(exact.length, "0").replace(/^(\d)0/, "$1.");
    return short === exact ? 0 : short < exact ? -1 : 1;
  }

  // Decimal digits in the safe direction: the text is never on the wrong side of the number.
  function rounded(value, digits, up) {
    if (value === 0) return "0";
    if (!Number.isFinite(value)) return "∞";
    let text = value.toPrecision(digits);
    const order = compared(text, value, digits);
    if (up ? order < 0 : order > 0) {
      const unit = 10 ** (Math.floor(Math.log10(value)) - digits + 1);
      text = (Number(text) + (up ? unit : -unit)).toPrecision(digits);
      // More digits than asked for, if the logarithm was off: still on the right side.
      if (up ? Number(text) < value : Number(text) > value) text = (value * (up ? 1 + 1e-15 : 1 - 1e-15)).toPrecision(17);
    }
    const number = Number(text);
    if (number !== 0 && (Math.abs(number) < 1e-4 || Math.abs(number) >= 1e7)) {
      return number.toExponential().replace("e+", "e");
    }
    return String(number);
  }
  const roundUp = (value, digits = 4) => rounded(value, digits, true);
  const roundDown = (value, digits = 4) => rounded(value, digits, false);

  /** Both ends, outwards; one number where they are shown alike. */
  function interval({ lower, upper }, digits = 4) {
    const [low, high] = [roundDown(lower, digits), roundUp(upper, digits)];
    return low === high ? high : `${low}–${high}`;
  }

  /** A number that a person chose, in short. */
  const given = (value) => (value < 1e-3 ? value.toExponential() : String(value));

  /** A noise multiplier in a sentence: as a person chose it, or six digits, rounded up, of one that was computed. */
  const inShort = (value) => (given(value).replace(".", "").replace(/^0+/, "").length <= 8 ? given(value) : roundUp(value, 6));

  return { ends, epsilonUpper, given, inShort, pairEnds, noiseFor, guessing, interval, roundUp, roundDown };
})();
