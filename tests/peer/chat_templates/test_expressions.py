"""The language itself: small templates, written down and made by chance, against Jinja as transformers sets it up."""

import random

import pytest

from template_driver import check_like_transformers

VARIABLES = {
    "a": 3, "b": -7, "z": 0, "f": 2.5, "g": -0.1, "h": 1e16, "s": "Hello, wörld", "e": "", "t": " x\ty\n ", "n": None, "yes": True, "no": False,
    "l": [3, 1, 2], "m": ["b", "A", "c", "b"], "d": {"k": 1, "items": 2, "z": [1, {"y": "é"}], "A": None}, "empty": [], "none_list": [None, 0, "", [], "x"],
    "people": [{"name": "Ann", "age": 31, "tags": ["x"]}, {"name": "bob", "age": 5, "tags": []}, {"name": "Cem", "age": 31}],
    "u": "Straße ΑΣ ǆ ﬁ İ 👩‍👩‍👧 \u00a0 \u200b", "html": "<a href='x'>&\"</a>", "messages": [], "tools": None, "documents": None, "add_generation_prompt": False,
}

WRITTEN = """
{{ a }}|{{ f }}|{{ h }}|{{ 1e22 }}|{{ 0.1 + 0.2 }}|{{ 1/3 }}|{{ 1e-7 }}|{{ 123456789.123 }}|{{ -0.0 }}|{{ 1e300*1e10 }}
{{ true }} {{ none }} {{ [1, 'a', none, true, 1.0] }} {{ (1,) }} {{ () }} {{ {'a': [1, (2, 3)], 2: 'b'} }}
{{ 'it\\'s' }} {{ ["it's", 'say "x"', 'b\\\\c', '\\n\\t\\x07é\\u200b'] }}
{{ a // 2 }} {{ b // 2 }} {{ b % 3 }} {{ a % -2 }} {{ b / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ f // 1 }} {{ -f % 1 }} {{ 7.5 // -2 }} {{ 7.5 % -2 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 == true }} {{ 'a' in 'cat' }} {{ 4 not in l }} {{ 'k' in d }}
{{ s[0] }} {{ s[-1] }} {{ s[1:5] }} {{ s[::-1] }} {{ s[::2] }} {{ l[::-1] }} {{ l[5:] }} {{ l[-2:] }} {{ s[100] }} {{ u[3:6] }} {{ s[:-3] }} {{ l[10:0:-2] }} {{ l[none:none] }}
{{ d.k }} {{ d['k'] }} {{ d.missing }} {{ d.items() }} {{ d['items'] }} {{ d.keys() }} {{ d.values() }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d.z.1.y }} {{ d.z[1]['y'] }}
{{ nothing }} {{ nothing | default('x') }} {{ nothing | d }} {{ '' | default('y', true) }} {{ nothing is defined }} {{ nothing.x }}
{{ a is number }} {{ yes is number }} {{ yes is integer }} {{ f is float }} {{ s is string }} {{ d is mapping }} {{ l is sequence }} {{ d is sequence }} {{ s is iterable }} {{ a is iterable }} {{ nothing is iterable }} {{ nothing is sequence }} {{ n is none }}
{{ a is odd }} {{ b is even }} {{ a is divisibleby 3 }} {{ a is divisibleby(2) }} {{ 'x' is in 'xyz' }} {{ a is eq 3 }} {{ a is ne 3 }} {{ a is gt 2 }} {{ a is not lt 2 }} {{ s is upper }} {{ 'abc' is lower }} {{ range is callable }} {{ yes is true }} {{ no is false }} {{ 1 is true }} {{ a is sameas 3 }} {{ yes is boolean }}
{{ s|upper }} {{ s|lower }} {{ s|title }} {{ s|capitalize }} {{ 'foo-bar (baz) [x]' | title }} {{ s.title() }} {{ "it's a dog's" .title() }} {{ u|upper }} {{ u|lower }} {{ u|title }} {{ u.title() }} {{ u|capitalize }} {{ 'ΑΣ ΑΣΑ Σ' | lower }}
{{ t|trim }}|{{ t.strip() }}|{{ t.lstrip() }}|{{ t.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abcba'|trim('ab') }}|{{ ' a b  c '.split() }}|{{ 'a,b,,c'.split(',') }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a b c'.rsplit(none, 1) }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ 'a\\nb\\r\\nc'.splitlines() }}|{{ 'a=b=c'.partition('=') }}|{{ 'a=b=c'.rpartition('=') }}|{{ 'abc'.partition('x') }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ s|replace('o', '0') }} {{ 'abc'.replace('', '-') }} {{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.find('ö') }} {{ s.find('q') }} {{ s.index('w') }} {{ s.count('l') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ ', '.join(m) }} {{ '7'.zfill(3) }} {{ 'x'.ljust(3) }}| {{ 'x'.rjust(3, '.') }} {{ 'x'.center(4, '*') }} {{ 'ab'.center(5, '*') }} {{ 'x'|center(5) }}|
{{ m|join }} {{ m|join(', ') }} {{ people|join(', ', attribute='name') }} {{ l|join('-') }} {{ m|first }} {{ m|last }} {{ empty|first }} {{ l|length }} {{ s|count }} {{ d|length }} {{ nothing|length }} {{ l|sum }} {{ people|sum('age') }} {{ l|min }} {{ l|max }} {{ m|min }} {{ people|max(attribute='age') }}
{{ l|sort }} {{ m|sort }} {{ m|sort(case_sensitive=true) }} {{ m|sort(reverse=true) }} {{ people|sort(attribute='age')|map(attribute='name')|list }} {{ people|sort(attribute='age,name', reverse=true)|map(attribute='name')|list }} {{ d|dictsort|list }} {{ {'b': 2, 'a': 3}|dictsort(by='value') }} {{ m|unique|list }} {{ m|reverse|list }} {{ s|reverse }} {{ l|list }} {{ s|list }}
{{ people|map(attribute='tags')|list }} {{ people|map(attribute='tags', default='-')|list }} {{ people|map(attribute='name')|map('upper')|join(' ') }} {{ people|selectattr('age', 'equalto', 31)|map(attribute='name')|list }} {{ people|rejectattr('tags')|list|length }} {{ people|selectattr('tags', 'defined')|list|length }} {{ none_list|select|list }} {{ none_list|reject('none')|list }} {{ l|select('odd')|list }} {{ l|select('gt', 1)|list }} {{ l|map('string')|list }}
{{ d|tojson }} {{ d|tojson(indent=2) }} {{ u|tojson }} {{ u|tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': [1.0, 1e100, true, none]}|tojson(sort_keys=true) }} {{ [1, [2, {}], []]|tojson(indent=1) }} {{ [1, {'a': 2}]|tojson(separators=(',', ':')) }} {{ html|tojson }} {{ '\\x00\\x1f\\x7f/'|tojson }} {{ (1, 2)|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }}
{{ '3'|int }} {{ '3.9'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ f|int }} {{ '0x1f'|int(base=16) }} {{ ' 12 '|int }} {{ '2.50'|float }} {{ 'q'|float }} {{ a|float }} {{ b|abs }} {{ g|abs }} {{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42|round }} {{ 2.1|round(0, 'ceil') }} {{ 2.9|round(method='floor') }} {{ 1234|round(-2) }} {{ a|string + 'x' }}
{{ html|escape }} {{ html|e|safe }} {{ ('<b>'|safe) + '<i>' }} {{ ('<b>'|safe) ~ '<i>' }} {{ '<i>' + ('<b>'|safe) }} {{ ('<b>'|safe)|upper + '&' }} {{ [html|safe] }} {{ html|e|e }} {{ html|forceescape }} {{ ('%s'|safe) % '<' }}
{{ '%s=%d' % ('x', 3) }} {{ '%05.2f|%-6s|%+d|%x|%%' % (3.14159, 'ab', 5, 255) }} {{ '%s' % a }} {{ '%(k)s!' % d }} {{ '%s %s'|format('a', 1) }} {{ '%r' % 'q' }} {{ '{} {}'.format(1, 'b') }} {{ '{0}{1}{0} {x}'.format('a', 'b', x=3) }} {{ '{{}}'.format() }} {{ '%5.1e' % 12345.678 }} {{ '%g' % 0.0001 }} {{ '%c' % 'x' }}
{{ 'a\\nb\\n\\nc'|indent }} {{ 'a\\nb'|indent(2, true) }} {{ 'a\\n\\nb'|indent(blank=true) }} {{ 'a\\nb'|indent('> ') }} {{ 'foo bar baz'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'foo bar baz qux'|truncate(9, false, '…', 0) }} {{ 'foo, bar_baz é'|wordcount }}
{{ l|batch(2)|list }} {{ l|batch(2, 'x')|list }} {{ range(7)|slice(3)|list }} {{ range(7)|slice(3, 0)|list }} {{ people|groupby('age')|list|length }}{% for age, group in people|groupby('age') %}{{ age }}:{{ group|map(attribute='name')|join(',') }};{% endfor %}
{{ range(3) }} {{ range(3)|list }} {{ range(5, 0, -2)|list }} {{ range(0)|list }} {{ range(10)[2:5]|list }} {{ range(3)|length }} {{ 2 in range(3) }}
{{ l + [4] }} {{ l * 2 }} {{ 'ab' * 3 }} {{ 0 * 'ab' }} {{ (1, 2) + (3,) }} {{ 'x' ~ 1 ~ none ~ 2.0 ~ [1] }} {{ -a }} {{ +b }} {{ not a }} {{ not not '' }} {{ yes + 1 }} {{ yes * 2.5 }}
{{ a or z }} {{ z or n }} {{ z and a }} {{ a and s }} {{ 'x' if a > 2 else 'y' }} {{ 'x' if z }} {{ 'x' if z else 'y' if n else 'w' }} {{ (1 if z) is undefined }} {{ a if a is defined else 0 }}
{% set x = 1 %}{% for i in l %}{{ x }}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}
{% set ns = namespace(x=1, y='q') %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.w }}{{ ns['x'] }}{{ ns is mapping }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'añb' %}{{ c }}.{% endfor %}{% for x in nothing %}x{% else %}none{% endfor %}{% for (a, b), c in [((1, 2), 3)] %}{{ a + b + c }}{% endfor %}
{% for i in range(5) if i is odd %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.cycle('a', 'b') }}{{ loop.missing }};{% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}{% for i in l %}{% for j in l %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{{ loop.index }}{% endfor %}
{% macro m1(x, y=2, z=x) %}[{{ x }},{{ y }},{{ z }}]{% endmacro %}{{ m1(1) }}{{ m1(1, z=5) }}{{ m1(x=3, y=4) }}{{ m1() }}{{ m1 is callable }}{{ m1.name }}{{ m1(1)|length }}
{% macro m2() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m2(1, 2, q=3) }}{{ m2(*l, **{'w': 1}) }}
{% macro m3(x) %}<{{ caller(x) if caller }}>{% endmacro %}{% call(v) m3(5) %}v={{ v }}{% endcall %}{{ m3(1) }}
{% macro fact(n) %}{{ 1 if n <= 1 else n * fact(n - 1)|int }}{% endmacro %}{{ fact(10) }}
{% set late = 1 %}{% macro m4() %}{{ late }}{% endmacro %}{% set late = 2 %}{{ m4() }}{% for i in l %}{% set late = i %}{{ m4() }}{% endfor %}
{% set block %}a{{ a }}{% set hidden = 1 %}{% endset %}{{ block }}{{ hidden }}{% set block2 | upper | replace('A', 'x') %}abc{% endset %}{{ block2 }}{% filter upper %}abc{{ s }}{% endfilter %}{% with q = a, w = 2 %}{{ q + w }}{% endwith %}{{ q }}{% print a, b %}
{% set p, q = 1, 2 %}{{ p }}{{ q }}{% set (p, q) = [q, p] %}{{ p }}{{ q }}{% set one = 1, %}{{ one }}
{% if n %}1{% elif e %}2{% elif l %}3{% else %}4{% endif %}{% if not nothing %}u{% endif %}{% if empty %}x{% else %}y{% endif %}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('|') %}{{ j() }}{{ j() }}{{ j() }}{{ dict(a=1, b=2) }}{{ dict([('x', 1)]) }}{{ dict({'q': 1}, w=2) }}
{{ l.append(4) }}
{{ l.append }}|{{ d.update }}|{{ s.__class__ }}|{{ l.index(1) }}|{{ l.count(3) }}
{{ d.pop('k') }}
{{ nothing + 1 }}
{{ nothing.x.y }}
{{ nothing() }}
{{ n.x }}|{{ n['x'] }}
{{ n.x.y }}
{{ n[1:] }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ 1 in 'a' }}
{{ 1 / 0 }}
{{ 1 < 'a' }}
{{ nothing < 1 }}
{{ n|length }}
{{ 5|length }}
{{ nothing|tojson }}
{{ raise_exception('no') }}
{{ {}['x'] }}|{{ {}.x }}|{{ [][0] }}|{{ {[1]: 2} }}
{% for a, b in [1] %}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{{ x|nofilter }}
{{ x is notest }}
{% unknown %}
{{ a b }}
{{ (1 }}
{{ 'abc }}
{% if a %}
{% endif %}
{{ l|map('nofilter')|list }}
{% set d.k = 1 %}
{% set nothing.k = 1 %}
{{ range(1000000)|length }}
{{ namespace(_x=1) }}
{{ m1(1, 2, 3) }}
{% macro m5(x) %}{% endmacro %}{{ m5(1, 2) }}
{% macro m6(x) %}{% endmacro %}{{ m6(y=1) }}
{{ 'a'.join(l) }}
{{ 'a'.split('') }}
{{ d.items(1) }}
{{ s.nomethod }}|{{ s.nomethod is defined }}
{{ s.nomethod() }}
{{- ' a ' -}}   {{ 'b' }}
a {#- gone -#} b {# stays #} c
{% raw %}{{ not }} {% this %}{% endraw %} {%- raw -%}  x {{ y }} {%- endraw -%} z
   {% if a %}
   indented
   {%+ if a %}
   kept
   {%- endif +%}
   {% endif %}
 {{ a }}   {% set x = 1 +%}
 end
{{ 'a' 'b' "c" }} {{ "\\u00e9\\x41\\101\\N" if false else '\\d\\e' }}
{{ 1_000 }} {{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 1.5e3 }} {{ 1e3 }} {{ 2.0 }} {{ 10000000000000000000 }} {{ 18446744073709551616 * 3 }} {{ 007 }}
{{ [1, 2, 3,] }} {{ {'a': 1,} }} {{ (1, 2,) }} {{ 1, 2 }} {{ s|upper|lower is string }} {{ (s|length > 3) is true }} {{ l|length is divisibleby 3 and true }} {{ not a is odd }} {{ a is defined and b is defined }} {{ -1|abs }} {{ (-1)|abs }} {{ 2 * 3|string }} {{ 'x' ~ 'y'|upper }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %a %A %b %B %j %p %I %y %%') }}
{{ 'x'|attr('upper') is callable }}{{ d|items|list }}{{ d|attr('k') }}{{ 'A'.isupper() }}{{ 'a1'.isalnum() }}{{ '12'.isdigit() }}{{ ' '.isspace() }}{{ 'é'.isalpha() }}{{ ''.isdigit() }}
{{ people[0].name }} {{ people[0]['tags'][0] }} {{ people|map(attribute='tags.0')|list }} {{ (people|first).name }} {{ people[-1].get('tags', 'no') }} {{ people[0] == people[0] }} {{ {'a': 1} == {'a': 1.0} }} {{ [1] == (1,) }} {{ '1' == 1 }} {{ nothing == nothing2 }} {{ nothing == none }}
{% generation %}abc{% endgeneration %}é{% generation %}é{{ s }}{% set inside = 1 %}{% endgeneration %}{{ inside }}{% for i in l %}{% generation %}{{ i }}{% endgeneration %}-{% endfor %}
{{ loop }}{{ loop.index }}
{% for i in l %}{{ l|map('upper') is iterable }}{{ loop is defined }}{% endfor %}{% set g = l|map('string') %}{{ g|list }}{{ g|list }}{{ l|map('string')|first }}
{{ ['a', 'b']|map('replace', 'a', 'x')|list }}{{ [[1, 2], [3]]|map('length')|list }}{{ ['a']|map('default', 'z')|list }}{{ [nothing]|map('default', 'z')|list }}{{ [1, nothing]|tojson }}
""".strip("\n")


def blocks(text):
    """One template a line; lines that begin with a space belong to the one before."""
    found = []
    for line in text.split("\n"):
        if line.startswith(" ") and found:
            found[-1] += "\n" + line
        else:
            found.append(line)
    return found


@pytest.mark.parametrize("template", blocks(WRITTEN))
def test_a_written_template_gives_what_jinja_gives(driver, template):
    check_like_transformers(driver, [("written", template, VARIABLES)])


class Maker:
    """Makes expressions and templates by chance, most of them meaningful."""

    FILTERS = ["upper", "lower", "trim", "length", "string", "int", "float", "first", "last", "list", "join", "join(', ')", "tojson", "default('D')", "d('D', true)",
               "replace('l', 'L')", "title", "capitalize", "sort", "reverse|list", "unique|list", "abs", "round", "round(1)", "sum", "min", "max", "indent(2)", "items|list",
               "dictsort", "map('string')|list", "map('upper')|join('+')", "select|list", "reject('none')|list", "selectattr('age')|list", "map(attribute='name')|list", "batch(2)|list",
               "tojson(indent=2)", "e", "safe", "count", "wordcount", "center(9)", "truncate(4, true, '')", "select('string')|list", "tojson(sort_keys=true)"]
    TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "false", "odd", "even", "divisibleby(3)",
             "eq(3)", "in([1, 'b', 3])", "lower", "upper", "callable", "gt(1)", "sameas(none)"]
    METHODS = ["strip()", "split()", "split('l')", "upper()", "title()", "lower()", "startswith('H')", "endswith('d')", "replace('o', '0')", "items()", "keys()", "values()|list", "get('k')",
               "get('q', 7)", "find('l')", "count('l')", "index(1)", "splitlines()", "lstrip(' H')", "join(['a', 'b'])", "isdigit()", "capitalize()", "rsplit(' ', 1)", "zfill(14)", "k", "name", "missing", "z", "0", "z.1"]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, options):
        return self.random.choice(options)

    def atom(self):
        names = [name for name in VARIABLES if name not in ("documents", "add_generation_prompt")] + ["nothing"]
        literals = ["1", "0", "-2", "2.5", "'b'", "'Hello'", "''", "none", "true", "false", "[]", "{}", "[1, 'b', none]", "{'k': 1, 'q': [2]}", "(1, 2)", "'x y z'", "range(4)"]
        return self.pick(names if self.random.random() < 0.6 else literals)

    def expression(self, depth):
        if depth <= 0:
            return self.atom()
        inner = lambda: self.expression(depth - 1 - self.random.randrange(2))  # noqa: E731
        kind = self.random.randrange(14)
        if kind == 0:
            return f"({inner()} {self.pick(['+', '-', '*', '/', '//', '%'])} {inner()})"
        if kind == 1:
            return f"({inner()} {self.pick(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} {inner()})"
        if kind == 2:
            return f"({inner()} {self.pick(['and', 'or'])} {inner()})"
        if kind == 3:
            return f"(not {inner()})"
        if kind in (4, 5, 6):
            return f"({inner()}|{self.pick(self.FILTERS)})"
        if kind == 7:
            return f"({inner()} is {self.pick(['', 'not '])}{self.pick(self.TESTS)})"
        if kind in (8, 9):
            return f"{inner()}.{self.pick(self.METHODS)}"
        if kind == 10:
            return f"({inner()} if {inner()} else {inner()})"
        if kind == 11:
            bound = lambda: self.pick(["", "0", "1", "-1", "2", "-3", "99"])  # noqa: E731
            subject = self.pick(["s", "l", "m", "u", "people", "a", "n", "d", "nothing", "(s|trim)", "(l|sort)"])  # Jinja itself slices constants otherwise
            return f"{subject}[{bound()}:{bound()}{self.pick(['', ':1', ':-1', ':2'])}]"
        if kind == 12:
            return f"{inner()}[{self.pick(['0', '-1', '2', inner(), repr('k'), repr('name')])}]"
        return f"({inner()} ~ {inner()})"

    def space(self):
        return self.pick(["", "", "-", "+"]), self.pick(["", "", "-"])

    def text(self):
        return self.pick(["", " ", "\n", "  \n ", "x", " y ", "\n\n  z\n", "é "])

    def tag(self, inside):
        begin, end = self.space()
        return f"{{%{begin} {inside} {end}%}}"

    def template(self, depth):
        parts = []
        for _ in range(self.random.randrange(1, 4)):
            kind = self.random.randrange(8) if depth > 0 else 0
            parts.append(self.text())
            if kind <= 2:
                parts.append(f"{{{{{self.pick(['', '-'])} {self.expression(3)} {self.pick(['', '-'])}}}}}")
            elif kind == 3:
                parts += [self.tag(f"if {self.expression(2)}"), self.template(depth - 1), self.tag("else"), self.template(depth - 1), self.tag("endif")]
            elif kind == 4:
                name = self.pick(["i", "a", "x"])
                parts += [self.tag(f"for {name} in {self.expression(1)}"), "{{ loop.index }}{{ %s }}" % name, self.template(depth - 1), self.tag("endfor")]
            elif kind == 5:
                parts.append(self.tag(f"set {self.pick(['a', 'x', 's'])} = {self.expression(2)}"))
            elif kind == 6:
                parts += [self.tag("set x"), self.template(depth - 1), self.tag("endset"), "{{ x }}"]
            else:
                name = self.pick(["f1", "f2"])
                parts += [self.tag(f"macro {name}(a, x={self.expression(1)})"), self.template(depth - 1), self.tag("endmacro"), f"{{{{ {name}({self.expression(1)}) }}}}"]
        return "".join(parts) + self.text()


@pytest.mark.parametrize("seed", range(10))
def test_a_template_made_by_chance_gives_what_jinja_gives(driver, seed):
    maker = Maker(seed)
    templates = ["{{ " + maker.expression(4) + " }}" for _ in range(200)] + [maker.template(2) for _ in range(100)]
    assert check_like_transformers(driver, [(f"seed {seed}", template, VARIABLES) for template in templates]) > 50
