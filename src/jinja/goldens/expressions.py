"""Small templates for make_goldens.py. Each line is one; a bare expression stands for {{ expression }}."""

# What the templates below can see beside the globals.
VARIABLES = {
    "name": "Ada",
    "empty": "",
    "text": "  two words  ",
    "wide": "naïve 東京 🚀",
    "n": 7,
    "zero": 0,
    "big": 18446744073709551615,
    "pi": 3.14159,
    "yes": True,
    "no": False,
    "nothing": None,
    "words": ["pear", "Apple", "fig", "apple"],
    "numbers": [3, 1, 2],
    "mixed": [1, "a", 2.5, None, True, [1], {"k": "v"}],
    "user": {"name": "Ada", "age": 36, "tags": ["x", "y"], "items": 5, "home": {"city": "London"}},
    "people": [
        {"name": "Bo", "age": 30, "role": "user"},
        {"name": "Al", "age": 25, "role": "tool"},
        {"name": "cy", "role": "user"},
    ],
    "schema": {"type": "object", "properties": {"city": {"type": "string", "description": "A \"city\"\n"}},
               "required": ["city"], "x": None, "f": 1.0, "e": [], "o": {}},
}

EXPRESSIONS = r'''
# literals and printing
1
-1
1.0
123456789012345678.0
0.0001
0.1 + 0.2
"text"
'single'
"a" 'b' "c"
"tab\there"
"\x41\u00e9\U0001F680"
"\d\."
'it\'s'
"quote\"d"
true
True
false
none
None
[]
[1, "two", 3.0, none, true]
[1, 2,]
()
(1,)
(1, 2)
1, 2
{}
{"a": 1, 'b': [2]}
{"a": 1, "a": 2}
["it's", 'say "hi"', "both ' and \"", "back\\slash", "line\n", "\u00e9\u200b", "\x00\x7f\x85"]
wide
[wide]
big
big + 1
nothing
missing
[missing]
mixed
user
schema
# arithmetic
2 + 3 * 4
(2 + 3) * 4
7 / 2
6 / 2
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
true + true
1 / 0
1 % 0
1 - "a"
"a" + 1
"a" + "b"
"ab" * 3
3 * "ab"
"ab" * -1
[1] + [2]
(1,) + (2,)
[1] + (2,)
[1] * none
none + 1
-name
-true
missing + 1
1 + missing
- missing
n - -3
# concat
"a" ~ 1 ~ none ~ true
missing ~ "x"
1 ~ 2 + 3
1 + 2 ~ 3
[1] ~ {}
# comparisons
1 < 2
1 == 1.0
1 == true
"a" == 'a'
"a" < "b"
"Z" < "a"
"é" > "z"
[1, 2] == [1, 2.0]
(1, 2) == [1, 2]
{"a": 1, "b": 2} == {"b": 2, "a": 1}
{"a": 1} == {"a": 2}
none == none
missing == none
missing == absent
missing != 1
1 < "a"
none < 1
[1] < [none]
range(3) == range(0, 3, 1)
range(0) == range(5, 2)
1 in [1, 2]
"1" in [1, 2]
"a" in "cat"
"" in ""
1 in "1"
"age" in user
36 in user.values()
("age", 36) in user.items()
"x" not in words
not "x" in words
n not in [1] and true
1 in none
1 in 5
"a" in missing
3 in range(5)
5 in range(5)
# logic
true and false or true
not true or true
not (true and false)
0 or "default"
"" and 1
name and n
none or missing or 3
not missing
not []
not {}
not [0]
not 0.0
not "0"
true if n > 5 else false
"a" if no else "b" if no else "c"
"shown" if no
("shown" if no) is defined
(1 if yes) + 1
# attributes, items, slices
user.name
user["name"]
user['home'].city
user.home["city"]
user.missing
user.missing is defined
user.missing.deeper
user["missing"]["deeper"]
user.items is callable
user["items"]
user.tags[0]
user.tags.0
user.tags[-1]
user.tags[5]
user.tags["a"]
people[0].name
people[1]["age"]
people.name
words[1:]
words[:-1]
words[::2]
words[::-1]
words[-2:]
words[10:]
words[3:1]
words[:missing]
words["a":]
words[::0]
(1, 2, 3)[1:]
name[0]
name[-1]
name[10]
name[1:]
name[::-1]
wide[6:8]
wide[-1]
wide[::2]
wide | length
range(10)[-1]
range(3)[5]
user[1:]
none[0]
none.x
missing.x
missing["x"]
missing[0:1]
missing()
name()
name.nosuch()
user.__class__
name.__class__.__mro__
words.append(1)
user.update({"a": 1})
user.pop("name")
# methods of strings
"  a b ".strip()
"  a b ".lstrip() ~ "|"
"|" ~ "  a b ".rstrip()
"xxaxx".strip("x")
"xyaxy".lstrip("xy")
"xyaxy".rstrip("yx")
"\u3000a\u00a0".strip() ~ "|"
"a,b,,c".split(",")
"a,b,,c".split(",", 1)
" a  b c ".split()
" a  b c ".split(none, 1)
" a  b c  ".split(maxsplit=1)
"".split()
"".split(",")
"a".split("")
"aXbXc".split("X")[-1]
"a</think>b</think>c".split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
"one\ntwo\r\nthree\x0bfour\n".splitlines()
name.startswith("A")
name.startswith(("x", "A"))
name.startswith(["x"])
name.endswith("da")
name.endswith(1)
"Straße ſ ŉ".upper()
"ÀÉΣ".lower()
"ὈΔΥΣΣΕΎΣ".lower()
"hello wORLD it's".title()
"hELLO World".capitalize()
"a.b.a".replace("a", "x")
"a.b.a".replace("a", "x", 1)
"abc".replace("", "-")
"abc".replace("", "-", 2)
"a".replace("a", 1)
"-".join(["a", "b"])
"-".join([1, 2])
", ".join(words)
"-".join("abc")
"banana".find("an")
"naïve".find("v")
"banana".find("x")
"banana".index("x")
"banana".count("an")
"prefix-x".removeprefix("prefix-")
"x.txt".removesuffix(".txt")
"a".strip(1)
"%s %s" % (1,)
"%s" % (1, 2)
"%d" % "3"
"none" % 1
# methods of dicts and lists
user.get("name")
user.get("x")
user.get("x", "d")
user.get("x") is none
user.keys() | list
user.keys() | length
{"a": 1}.items() | list
user.keys()[0]
user.keys() | first
words.index("nope")
# filters on text
"  x " | trim
"xxaxx" | trim("x")
n | trim
missing | trim
"aBc" | upper
"aBc" | lower
n | upper
none | lower
"hello world-wide (web) it's o'clock" | title
"  a - (b) cD" | title
"hELLO" | capitalize
"a\nb\n\nc" | indent
"a\nb\n\nc" | indent(2, true)
"a\nb\n\nc" | indent(2, false, true)
"a\nb\n" | indent(1)
5 | indent
"a-a-a" | replace("-", "+")
"a-a-a" | replace("-", "+", 1)
"x" | replace("x")
words | join
words | join(", ")
numbers | join("+")
"abc" | join("-")
people | join(", ", attribute="name")
people | map(attribute="age") | join("/")
user | join(",")
missing | join(",")
5 | join
"<b>" | safe
("<b>" | safe) ~ "<i>"
("<b>" | safe).upper()
("a" | safe) is string
("a" | safe) == "a"
5 | string + "x"
[1, "a"] | string
none | string
missing | string
# integers
"42" | int
" -7 " | int
"4.9" | int
"x" | int
"x" | int(5)
"x" | int(default=-1)
4.9 | int
-4.9 | int
none | int
[] | int(3)
true | int
"inf" | int
"1e3" | int
missing | int
"a" | abs
3.789 | round(2, "up")
"a" | round
# filters on sequences
words | length
words | count
user | length
5 | length
none | length
missing | length
words | first
words | last
[] | first
[] | last
name | first
name | last
user | first
range(3) | last
"abc" | list
user | list
(1, 2) | list
range(4) | list
none | list
words | reverse | list
name | reverse
numbers | reverse | first
words | sort
words | sort(true)
words | sort(case_sensitive=true)
numbers | sort
people | sort(attribute="name") | map(attribute="name") | list
people[:2] | sort(attribute="age") | map(attribute="name") | list
[3, "a"] | sort
words | unique | list
words | unique(true) | list
[[1]] | unique | list
user | dictsort
user.home | dictsort
{"b": 1, "A": 2} | dictsort
{"b": 1, "A": 2} | dictsort(true)
{"a": 1}.items() | list
{"a": 1} | items | list
missing | items | list
5 | items | list
user | items | length
# map, select and friends
people | map(attribute="name") | list
people | map(attribute="age") | list
people | map(attribute="age", default=0) | list
people | map(attribute="home.city") | list
words | map("upper") | list
words | map("replace", "p", "b") | list
words | map("nosuch") | list
words | map | list
numbers | select("odd") | list
numbers | select(">", 1) | list
numbers | reject("equalto", 2) | list
mixed | select | list
mixed | select("string") | list
mixed | reject("none") | list
people | selectattr("role", "equalto", "user") | map(attribute="name") | list
people | selectattr("role", "==", "user") | list | length
people | selectattr("age") | map(attribute="name") | list
people | selectattr("age", "defined") | list | length
people | rejectattr("role", "eq", "user") | map(attribute="name") | list
people | rejectattr("age") | map(attribute="name") | list
people | selectattr("role", "in", ["tool", "x"]) | map(attribute="name") | join
people | selectattr("role", "nosuch") | list
people | selectattr | list
missing | selectattr("x") | list
none | select | list
5 | select | list
words | select("in", "fig apple") | list
(words | map("upper")) is iterable
(words | map("upper")) is sequence
(words | map("upper"))[0]
(words | map("upper") | length)
(people | selectattr("role", "eq", "none")) and "always true"
words | map("first") | join
# tojson
schema | tojson
schema | tojson(indent=2)
schema | tojson(indent=0)
schema | tojson(separators=(",", ":"))
schema | tojson(indent=4, separators=(",", ": "))
schema | tojson(sort_keys=true)
wide | tojson
wide | tojson(ensure_ascii=true)
"\x00\x1f\x7f\"\\/\b\f\n\r\t" | tojson
"\x7f" | tojson(true)
none | tojson
1.0 | tojson
big | tojson
(1, 2) | tojson
{"b": 1, 2: 3} | tojson(sort_keys=true)
[[], {}, [[]]] | tojson(indent=1)
("<b>" | safe) | tojson
missing | tojson
range(3) | tojson
words | map("upper") | tojson
[missing] | tojson
# default
missing | default("d")
missing | d("d")
missing | default
none | default("d")
none | default("d", true)
"" | default("d", boolean=true)
0 | default("d")
user.missing | default("d")
user.missing.deeper | default("d")
# tests
n is defined
missing is defined
missing is not defined
missing is undefined
nothing is none
missing is none
nothing is not none
name is string
n is string
n is number
pi is number
yes is number
name is number
n is integer
yes is integer
pi is integer
pi is float
yes is boolean
n is boolean
yes is true
1 is true
no is false
user is mapping
words is mapping
words is iterable
name is iterable
n is iterable
missing is iterable
words is sequence
name is sequence
user is sequence
missing is sequence
range(2) is sequence
n is odd
n is even
6 is divisibleby 3
6 is divisibleby(4)
"a" is odd
n is eq 7
n is equalto(7)
n is ne 7
n is gt 5
n is ge 7 and n is le 7
1 is in [1, 2]
3 is not in [1, 2]
"a" is in "abc"
range is callable
name is callable
n is nosuch
not n is defined
n is defined and n > 5
1 + 1 is number
n is number is string
# globals
range(1, 10, 3) | list
range(5, 0, -2) | list
range(1, 2, 0)
range("a")
range(100000) | length
range(100001) | length
range(-100000, 1000000000, 1)
dict(a=1, b="x")
dict(1)
namespace(a=1).a
namespace(a=1).missing
namespace(a=1)["a"]
strftime_now("%Y-%m-%d")
strftime_now("%d %b %Y")
strftime_now("%A, %B %d, %Y %H:%M:%S %p %I %j %y %a %-d %e %%")
# precedence and calls
-1.abs
"a" ~ "b" | upper
("a" ~ "b") | upper
[3, 1] | sort | first
1 if 0 else 2 | string
not name is string
name is string and n is number
words | map("upper") | join(", ") | lower
user.tags | join(separator="x")
user.tags | join("a", "b", "c")
words | nosuchfilter
words | first | last
"a" in name | lower
"x" if missing is defined else "y"
[x for x in words]
{"a"}
1 +
(1
1)
"abc
{{
a b
a..b
.a
1.2.3
user.0
@
a = 1
'''

TEMPLATES = [
    # white space control
    "a {{ 1 }} b",
    "a\n{% if true %}\nb\n{% endif %}\nc\n",
    "a\n  {% if true %}\n    b\n  {% endif %}\nc",
    "a\n  {%+ if true %}\n    b\n  {% endif +%}\nc",
    "a  {%- if true -%}  b  {%- endif -%}  c",
    "a  {{- 1 -}}  b",
    "a \n {{- 1 }} \n b",
    "  {% set x = 1 %}  {% set y = 2 %}\n  z",
    "x  {% set x = 1 %}  y",
    "{# comment #}\na",
    "a {# comment #} b",
    "a  {#- comment -#}  b",
    "  {# comment #}\n  {{ 1 }}",
    "{#-#}\nb{#--#} c",
    "a\r\nb\rc\n{% if true %}\r\nd{% endif %}\r\n",
    "trailing\n\n",
    "trailing\n",
    "\n",
    "",
    "   ",
    "{{ 1 }}\n{{ 2 }}\n",
    "{%- for i in [1, 2] %}\n{{ i }}\n{%- endfor %}",
    "{% for i in [1, 2] -%}\n  {{ i }}\n{% endfor %}",
    "{# unclosed",
    "{{ unclosed",
    "{% unclosed",
    "{{ '}}' }}{{ \"%}\" }}",
    "{{ {'a': {'b': 1}}}}",
    "{{ {'a': {'b': 1}}['a'] }}",
    "{% if {'a': 1} %}x{% endif %}",
    "{{-1}} {{+1}} {{ -1 }}",
    "{{}}",
    "{%%}",
    "{{ }}",
    "{ { % } }",
    "{",
    "a\u00a0{%- if true %}\u2003b{% endif %}",
    "\u3000{% if true %}b{% endif %}",
    # if
    "{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}",
    "{% if zero %}a{% elif n > 3 %}b{% else %}c{% endif %}",
    "{% if zero %}a{% elif empty %}b{% else %}c{% endif %}",
    "{% if missing %}a{% endif %}b",
    "{% if words: %}a{% endif %}",
    "{% if true %}a",
    "{% endif %}",
    "{% if %}a{% endif %}",
    "{% if 1 2 %}a{% endif %}",
    "{% if true %}{% for %}{% endif %}",
    "{% if true %}a{% endfor %}",
    # for and loop
    "{% for w in words %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ w }};{% endfor %}",
    "{% for w in words %}{{ loop.length }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.depth }} {% endfor %}",
    "{% for w in words %}{{ loop.previtem }}<{{ w }}<{{ loop.nextitem }} {% endfor %}",
    "{% for w in words %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
    "{% for w in words if w != 'fig' %}{{ loop.index }}/{{ loop.length }}{{ w }}{{ loop.last }} {% endfor %}",
    "{% for w in words if w == 'none' %}x{% else %}nothing{% endfor %}",
    "{% for k, v in user.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in user | items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in user %}{{ k }};{% endfor %}",
    "{% for a, b in [1] %}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% for c in 'añb' %}[{{ c }}]{% endfor %}",
    "{% for x in missing %}x{% else %}empty{% endfor %}",
    "{% for x in none %}x{% endfor %}",
    "{% for x in 5 %}x{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% else %}e{% endfor %}",
    "{% for x in [1] %}{% break %}{% else %}else after break{% endfor %}",
    "{% for x in [1, 2] %}{% continue %}{% else %}else after continue{% endfor %}",
    "{% break %}",
    "{% for x in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for x in range(3) %}{% for y in range(2) %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{{ loop.index }};{% endfor %}",
    "{% for x in [1, 2] %}{% set outer = loop %}{% for y in [1, 2] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for x in x %}{{ x }}{% endfor %}",
    "{% for x in [3] %}{{ x }}{% endfor %}{{ x }}",
    "{{ loop }}",
    "{{ loop.index }}",
    "{% for x in [1] recursive %}{{ x }}{% endfor %}#ours",
    "{% for w in words | reverse %}{{ w }} {% endfor %}",
    "{% for w in words | map('upper') %}{{ loop.index }}/{{ loop.length }}{{ w }} {% endfor %}",
    "{% set g = words | map('upper') %}{% for w in g %}{{ w }}{% endfor %}|{% for w in g %}{{ w }}{% endfor %}",
    "{% set g = words | map('upper') %}{{ g | first }}{{ g | first }}|{% for w in g %}{{ w }}{% endfor %}",
    "{% set ns = namespace(stop=false) %}{% for x in [1, 2, 3] if not ns.stop %}{{ x }}{% if x == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
    "{% for x in [1] %}{% for y in [loop.index] %}{{ y }}{% endfor %}{% endfor %}",
    "{% for i in range(2) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
    # set and scope
    "{% set x = 1 %}{{ x }}",
    "{% set x, y = 1, 2 %}{{ x }}{{ y }}",
    "{% set x = 1, 2 %}{{ x }}",
    "{% set (a, b) = [1, 2] %}{{ a }}{{ b }}",
    "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% if false %}{% set name = 'B' %}{% endif %}{{ name }}",
    "{% for i in [1] %}{% if false %}{% set name = 'B' %}{% endif %}{{ name }}{% endfor %}",
    "{% for i in [1, 2] %}{{ x is defined }}{% set x = i %}{% endfor %}",
    "{% set name = name ~ '!' %}{{ name }}",
    "{% set ns = namespace(x=1) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.c is defined }}",
    "{% set user.name = 1 %}",
    "{% set missing.x = 1 %}",
    "{% set x %}a{{ 1 }}b{% endset %}[{{ x }}]",
    "{% set ns = namespace() %}{% set ns.x %}body{% endset %}{{ ns.x }}",
    "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}",
    "{% set true = 1 %}",
    "{% set 1 = 1 %}",
    "{% set x %}",
    "{% set x = %}",
    "{% for i in [1, 2, 3] %}{% set part %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endset %}{{ part }}{% endfor %}",
    # macros and calls
    "{% macro m(a, b=2, c=a) %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 5) }}{{ m(1, c=9) }}{{ m(b=3) }}",
    "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}",
    "{% macro m() %}{{ name }}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }}",
    "{% macro m() %}{% set name = 'x' %}{{ name }}{% endmacro %}{{ m() }}{{ name }}",
    "{% macro down(k) %}{{ k }}{% if k > 0 %}{{ down(k - 1) }}{% endif %}{% endmacro %}{{ down(3) }}",
    "{% for i in [1, 2] %}{{ m is defined }}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(m(m('deep'))) }}",
    "{% macro m() %}a\n{% endmacro %}{{ m() | trim }}|{{ m() | length }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{{ m() }}{% macro m() %}x{% endmacro %}",
    "{% macro j(v) %}{% if v is mapping %}{{ '{' }}{% for k, x in v.items() %}{{ k }}:{{ j(x) }}{% if not loop.last %},{% endif %}{% endfor %}{{ '}' }}{% elif v is iterable and v is not string %}[{% for x in v %}{{ j(x) }} {% endfor %}]{% else %}{{ v }}{% endif %}{% endmacro %}{{ j(user) }}",
    # generation
    "{% generation %}a{{ name }}{% endgeneration %}b",
    "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}",
    "{% for i in [1, 2] %}{% generation %}{{ loop.index }}{% endgeneration %}{% endfor %}",
    # errors
    "{{ raise_exception('Only user and assistant') }}",
    "{% if n != 3 %}{{ raise_exception('n is ' ~ n) }}{% endif %}",
    "{% nosuchtag %}",
    "{% include 'x' %}#ours",
    "{% import 'x' as y %}#ours",
    "{% extends 'x' %}#ours",
    "{% block x %}a{% endblock %}#ours",
    "{% do x %}",
    "{{ words | map('upper') }}#ours",
    "{{ user.items }}#ours",
    "{{ 'a' | nosuch }}",
    "{% if false %}{{ 'a' | nosuch }}{% endif %}ok",
    "{% if false %}{{ 'a' is nosuch }}{% endif %}ok",
]


def templates():
    """All (template, note) pairs; the note "ours" marks where we are stricter than Jinja."""
    for line in EXPRESSIONS.strip().splitlines():
        if line and not line.startswith("#"):
            yield "{{ " + line + " }}", ""
    for template in TEMPLATES:
        template, mark, note = template.partition("#ours")
        yield template, "ours" if mark else ""
