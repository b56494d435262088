"""Right and given answers of mathematics, in LaTeX: each right one beside other spellings of it, and beside others."""

import random
from fractions import Fraction
from math import gcd, isqrt


def latex_fraction(value, rng):
    """One of the ways to write down a rational number."""
    sign, value = ("-" if value < 0 else ""), abs(value)
    ways = []
    if value.denominator == 1:
        whole = value.numerator
        ways += [f"{whole}", f"{whole}.0", rf"\frac{{{whole * 3}}}{{3}}"]
        ways += [f"{whole:,}"] if whole >= 1000 and whole < 10**12 else []
        ways += [f"{whole:,}".replace(",", "{,}")] if whole >= 1000 else []
        ways += [f"{whole // 2} + {whole - whole // 2}"] if not sign else []
    else:
        top, bottom = value.numerator, value.denominator
        ways += [rf"\frac{{{top}}}{{{bottom}}}", rf"\dfrac{{{top}}}{{{bottom}}}", f"{top}/{bottom}", rf"\tfrac{{{2 * top}}}{{{2 * bottom}}}"]
        if top < 10 and bottom < 10:
            ways.append(rf"\frac{top}{bottom}")
        if top > bottom:
            ways.append(rf"{top // bottom}\frac{{{top % bottom}}}{{{bottom}}}")
        if 10**6 % bottom == 0:
            ways.append(f"{float(value):.7f}".rstrip("0"))
    return sign + rng.choice(ways)


def rational(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return Fraction(rng.randint(-50, 5000))
    if kind == 1:
        return Fraction(rng.randint(10**4, 10**9))
    if kind == 2:
        return Fraction(rng.randint(-200, 200), rng.choice([2, 4, 5, 8, 10, 20, 25, 100]))
    return Fraction(rng.randint(-99, 99), rng.randint(2, 40))


def numbers(rng):
    value = rational(rng)
    other = rng.choice([value + 1, -value or Fraction(3), value + Fraction(1, 7), value * 10 or Fraction(7), 1 / value if value else Fraction(2)])
    return latex_fraction(value, rng), [latex_fraction(value, rng) for _ in range(2)] + [latex_fraction(other, rng) for _ in range(2)]


def decimals(rng):
    """A number beside its rounding, to few and to many places."""
    value = Fraction(rng.randint(1, 60), rng.choice([3, 7, 9, 11, 13]))
    exact = rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
    return exact, [f"{float(value):.{places}f}" for places in (2, 4, 6, 8)]


def percents(rng):
    whole = rng.randint(1, 99)
    return rf"{whole}\%", [f"{whole}", f"{whole / 100:.2f}", rf"{whole}\%", rf"{whole + 1}\%", f"{whole / 10:.1f}"]


def polynomial(coefficients, name, rng):
    """Highest power first, or in another order."""
    terms = []
    for power, c in enumerate(reversed(coefficients)):
        if c == 0:
            continue
        unit = "" if power == 0 else name if power == 1 else f"{name}^{power}"
        size = "" if abs(c) == 1 and unit else str(abs(c))
        terms.append(("-" if c < 0 else "+", size + unit))
    terms.reverse()
    if rng.random() < 0.4:
        rng.shuffle(terms)
    text = "".join(f" {sign} {term}" for sign, term in terms).strip() or "0"
    return text[2:] if text.startswith("+ ") else text.replace("- ", "-", 1) if text.startswith("- ") else text


def product(a, b):
    result = [0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            result[i + j] += x * y
    return result


def polynomials(rng):
    name = rng.choice("xyna")
    a, b = ([rng.choice([1, 1, 2, 3, -1]), rng.choice([-5, -3, -1, 1, 2, 4])] for _ in range(2))
    whole = product(a, b)
    wrong = list(whole)
    wrong[rng.randrange(len(wrong))] += rng.choice([-1, 1, 2])
    factors = f"({polynomial(a, name, rng)})({polynomial(b, name, rng)})"
    return polynomial(whole, name, rng), [factors, polynomial(whole, name, rng), polynomial(wrong, name, rng),
                                          f"({polynomial(a, name, rng)})({polynomial(a, name, rng)})" if a != b else polynomial(wrong, name, rng)]


def square_free(n):
    """n as s² · rest."""
    s = max(k for k in range(1, isqrt(n) + 1) if n % (k * k) == 0)
    return s, n // (s * s)


def radicals(rng):
    n, below = rng.choice([8, 12, 18, 20, 24, 27, 32, 45, 48, 50, 72, 75, 98]), rng.randint(1, 6)
    s, rest = square_free(n)
    common = gcd(s, below)
    top = f"{s // common if s // common > 1 else ''}\\sqrt{{{rest}}}"
    simple = top if below // common == 1 else rf"\frac{{{top}}}{{{below // common}}}"
    plain = rf"\sqrt{{{n}}}" if below == 1 else rf"\frac{{\sqrt{{{n}}}}}{{{below}}}"
    return simple, [plain, rf"\sqrt{{{rest}}} \cdot {latex_fraction(Fraction(s, below), rng)}",
                    rf"\sqrt{{{n + 1}}}" if below == 1 else rf"\frac{{\sqrt{{{n + 1}}}}}{{{below}}}", rf"{s}\sqrt{{{rest + 1}}}",
                    rf"\sqrt{{\frac{{{n}}}{{{below * below}}}}}"]


def sums_with_radicals(rng):
    a, b, r = rng.randint(1, 9), rng.randint(1, 9), rng.choice([2, 3, 5, 7, 11])
    right = rf"{a} + {b}\sqrt{{{r}}}"
    return right, [rf"{b}\sqrt{{{r}}} + {a}", rf"{a} - {b}\sqrt{{{r}}}", rf"\sqrt{{{b * b * r}}} + {a}", rf"{a + b}\sqrt{{{r}}}",
                   rf"\frac{{{2 * a} + {2 * b}\sqrt{{{r}}}}}{{2}}"]


def circles(rng):
    value = Fraction(rng.randint(1, 30), rng.randint(1, 6))
    other = value + Fraction(1, 2)

    def times_pi(v):
        return rng.choice([rf"{latex_fraction(v, rng)} \pi", rf"\frac{{{v.numerator}\pi}}{{{v.denominator}}}", rf"\pi \cdot {latex_fraction(v, rng)}"])
    return times_pi(value), [times_pi(value), times_pi(other), times_pi(value), latex_fraction(value, rng)]


def tuples(rng):
    values = [rational(rng) for _ in range(rng.randint(2, 3))]
    swapped = values[::-1]
    wrong = [values[0] + 1, *values[1:]]

    def written(of):
        # A space after the comma: (1,234) could be one number.
        inside = ", ".join(latex_fraction(v, rng).replace("{,}", "").replace(",", "") for v in of)
        return rng.choice([f"({inside})", rf"\left({inside}\right)"])
    return written(values), [written(values), written(swapped), written(wrong), written(values[:1] * 4)]


def sets(rng):
    values = rng.sample(range(-20, 60), rng.randint(2, 4))
    mixed = rng.sample(values, len(values))
    wrong = [values[0] + 100, *values[1:]]

    def written(of):
        return r"\{" + ", ".join(map(str, of)) + r"\}"
    return written(values), [written(mixed), written(wrong), written(values[:-1]), written(values)]


def lists(rng):
    values = rng.sample(range(-20, 60), rng.randint(2, 3))
    mixed = rng.sample(values, len(values))
    return ", ".join(map(str, values)), [", ".join(map(str, mixed)), ", ".join(map(str, [v + 1 for v in values])), ",".join(map(str, values))]


def intervals(rng):
    low, high = sorted(rng.sample(range(-30, 60), 2))
    open_, close = rng.choice("(["), rng.choice(")]")
    flipped = "[" if open_ == "(" else "("
    half = rf"{open_}\frac{{{2 * low}}}{{2}}, {high}{close}"
    return f"{open_}{low}, {high}{close}", [rf"\left{open_}{low}, {high}\right{close}", f"{flipped}{low}, {high}{close}",
                                            f"{open_}{low}, {high + 1}{close}", half]


def rays(rng):
    low, high = sorted(rng.sample(range(-30, 60), 2))
    right = rf"(-\infty, {low}) \cup ({high}, \infty)"
    return right, [rf"({high}, \infty) \cup (-\infty, {low})", rf"(-\infty, {low}] \cup ({high}, \infty)", rf"(-\infty,{low})\cup({high},\infty)"]


def plus_minus(rng):
    a, r = rng.randint(1, 9), rng.choice([2, 3, 5, 7])
    return rf"{a} \pm \sqrt{{{r}}}", [rf"{a} + \sqrt{{{r}}}, {a} - \sqrt{{{r}}}", rf"\{{{a} - \sqrt{{{r}}}, {a} + \sqrt{{{r}}}\}}", rf"{a + 1} \pm \sqrt{{{r}}}",
                                      rf"{a} + \sqrt{{{r}}}"]


def equations(rng):
    name, value = rng.choice("xyz"), rational(rng)

    def written(of):
        return latex_fraction(of, rng).replace("{,}", "").replace(",", "")
    return f"{name} = {written(value)}", [written(value), f"{name} = {written(value)}", f"{name} = {written(value + 1)}", written(value + 1)]


def bare_values(rng):
    name, value = rng.choice("xyz"), rational(rng)
    return latex_fraction(value, rng), [f"{name} = {latex_fraction(other, rng)}".replace("{,}", "").replace(",", "") for other in (value, value + 1)]


def rational_functions(rng):
    a, b = rng.sample(range(1, 9), 2)
    right = rf"\frac{{x + {a}}}{{x - {b}}}"
    return right, [rf"1 + \frac{{{a + b}}}{{x - {b}}}", rf"\frac{{(x+{a})^2}}{{(x-{b})(x+{a})}}", rf"\frac{{x + {b}}}{{x - {a}}}", rf"-\frac{{x+{a}}}{{{b} - x}}"]


def powers(rng):
    base, exponent = rng.choice([2, 3, 5]), rng.randint(2, 12)
    return f"{base}^{{{exponent}}}", [str(base**exponent), str(base**exponent + 1), rf"{base} \cdot {base}^{{{exponent - 1}}}", f"{base ** exponent:,}"]


def logarithms(rng):
    a, b = rng.sample([2, 3, 5, 7, 10], 2)
    return rf"\ln {a * b}", [rf"\ln {a} + \ln {b}", rf"\ln {a} \cdot \ln {b}", rf"\ln({a * b})", rf"\ln {a * b + 1}"]


def units(rng):
    value = rng.randint(2, 500)
    unit = rng.choice(["cm", "meters", "inches", "miles", "hours"])
    return f"{value}", [rf"{value} \text{{ {unit}}}", rf"{value + 1} \text{{ {unit}}}", rf"{value}\text{{ {unit}}}"]


def degrees(rng):
    value = rng.randint(1, 360)
    return rf"{value}^\circ", [f"{value}", rf"{value + 1}^\circ", rf"{value}^{{\circ}}"]


def several_names(rng):
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    return f"{a}x + {b}y", [f"{b}y + {a}x", f"{a}y + {b}x" if a != b else f"{a}y - {b}x", f"{a}(x + y) + {b - a}y" if b != a else f"{a}(x + y)", rf"{a} \cdot x + y \cdot {b}"]


KINDS = {make.__name__: make for make in (numbers, decimals, percents, polynomials, radicals, sums_with_radicals, circles, tuples, sets, lists, intervals, rays,
                                          plus_minus, equations, bare_values, rational_functions, powers, logarithms, units, degrees, several_names)}

# Answers as they are found in collections of questions.
COLLECTED = [
    (r"\frac{3}{4}", ["0.75", r"\frac{6}{8}", "3/4", ".75", r"\frac34", r"\dfrac{3}{4}", "75%", "4/3", "0.34"]),
    (r"2\sqrt{2}", [r"\sqrt{8}", r"2 \sqrt 2", r"\frac{4}{\sqrt{2}}", "2.828427", r"2\sqrt{3}", r"\sqrt{2}"]),
    (r"x^2 + 2x + 1", [r"(x+1)^2", r"1 + 2x + x^2", r"x(x+2)+1", r"(x-1)^2"]),
    (r"\text{even}", [r"\text{even}", r"\text{odd}"]),
    (r"10\%", [r"10\%", "0.1", "10", "1"]),
    (r"e^{2}", [r"e^2", r"e \cdot e", r"2^e", "e"]),
    (r"3x + 2", ["2 + 3x", "3x - 2", "3y + 2"]),
    (r"-\frac{1}{2}", [r"\frac{-1}{2}", r"\frac{1}{-2}", "-0.5", "0.5", "-.5"]),
    (r"\frac{\pi}{4}", [r"\pi/4", r"0.25\pi", r"\frac14\pi", r"\frac{\pi}{3}"]),
    (r"\sin^2 x", [r"(\sin x)^2", r"1 - \cos^2 x", r"\sin x^2", r"\cos^2 x"]),
    (r"i", ["i", "-i", r"\sqrt{-1}"]),
    (r"3 + 4i", ["4i + 3", "3 - 4i", "(2+i)^2"]),
    (r"\frac{1}{x} + \frac{1}{y}", [r"\frac{x+y}{xy}", r"\frac{2}{x+y}"]),
    (r"120", ["5!", r"\binom{10}{3}", "6!"]),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", [r"\begin{pmatrix} 1 & 2 \\ 3 & \frac{8}{2} \end{pmatrix}", r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}"]),
    (r"x > 3", [r"3 < x", r"x \ge 3", r"x < 3", r"2x > 6"]),
    (r"1 < x < 2", [r"2 > x > 1", r"1 < x \le 2", r"1 < x < 3"]),
    (r"y = 2x + 1", ["y = 1 + 2x", "2x + 1", "y = 2x - 1", "2x - y + 1 = 0"]),
    (r"\sqrt{x}", [r"x^{1/2}", r"x^{\frac12}", r"x^2", r"x^{0.5}"]),
    (r"|x|", [r"|x|", r"|-x|", "x"]),
    (r"\emptyset", [r"\emptyset", r"\{\}"]),
    (r"A", ["A", "B", "C"]),
]


def answer_pairs(count, seed=11):
    """[(kind, right, given)], the same for the same numbers."""
    pairs = [("collected", right, given) for right, all_given in COLLECTED for given in all_given]
    rng = random.Random(seed)
    while len(pairs) < count:
        for kind, make in KINDS.items():
            right, all_given = make(rng)
            pairs += [(kind, right, given) for given in all_given]
    return pairs[:count]
