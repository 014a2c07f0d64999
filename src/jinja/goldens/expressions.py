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
+5
1.0
1.5e3
1e16
1e15
123456789012345678.0
1e-5
0.0001
0.1 + 0.2
1_000
0x1F
0b101
0o17
"text"
'single'
"a" 'b' "c"
"tab\there"
"\x41\u00e9\U0001F680"
"\101"
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
{1: "x", none: 2}
{"a": 1, "a": 2}
{1: "a", 1.0: "b", true: "c"}
["it's", 'say "hi"', "both ' and \"", "back\\slash", "line\n", "\u00e9\u200b", "\x00\x7f\x85"]
wide
[wide]
big
big + 1
[1e300 * 1e10, -1e300 * 1e10]
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
7.5 // 2
-7.5 % 2
5.0 // 0.3
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
2.0 ** 0.5
true + true
1 / 0
1 % 0
0 ** -1
1 - "a"
"a" + 1
"a" + "b"
"ab" * 3
3 * "ab"
"ab" * -1
[1] + [2]
(1,) + (2,)
[1] + (2,)
[0] * 3
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
1 < 2 < 3
1 < 2 > 5
3 > 2 >= 2 == 2
1 == 1.0
1 == true
"a" == 'a'
"a" < "b"
"Z" < "a"
"é" > "z"
[1, 2] < [1, 3]
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
[1, none] < [2, 1]
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
[1] in {}
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
range(10)[2:8:3]
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
"a,b,c".rsplit(",", 1)
" a b  c ".rsplit(none, 1)
"".split()
"".split(",")
"a".split("")
"aXbXc".split("X")[-1]
"a</think>b</think>c".split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
"one\ntwo\r\nthree\x0bfour\n".splitlines()
"one\ntwo\n".splitlines(true)
"a-b-c".partition("-")
"a-b-c".rpartition("-")
"abc".partition("-")
"abc".rpartition("-")
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
"banana".rfind("an")
"naïve".find("v")
"banana".find("x")
"banana".index("x")
"banana".count("an")
"aaa".count("")
"12".isdigit() ~ "1²".isdigit() ~ "".isdigit() ~ "x".isdigit()
"½".isnumeric() ~ "½".isdigit()
"abc".isalpha() ~ "ab1".isalpha() ~ "é".isalpha()
"ab1".isalnum()
"  ".isspace()
"ABC".isupper() ~ "abc".islower() ~ "Abc".islower() ~ "1".isupper()
"prefix-x".removeprefix("prefix-")
"x.txt".removesuffix(".txt")
"7".zfill(3) ~ "-7".zfill(4)
"ab".ljust(4, ".") ~ "ab".rjust(4) ~ "|" ~ "ab".center(5, "*") ~ "a".center(4) ~ "|"
"a".strip(1)
# str.format and %
"{} {}".format(1, "a")
"{1} {0}".format("a", "b")
"{x} {y.name} {y[age]}".format(x=1, y=user)
"{{}} {}".format(1)
"{!r} {!s}".format("a", "b")
"{:>5}|{:<5}|{:^5}|".format("a", "b", "c")
"{:05d} {:+d} {:x} {:#x} {:b} {:,}".format(42, 42, 255, 255, 5, 1234567)
"{:.2f} {:8.3f} {:e} {:g} {:.0%}".format(pi, pi, 12345.678, 0.00001, 0.256)
"{:*^9}".format(name)
"{:.2}".format("abc")
"{:=+6d}".format(42)
"{} {}".format(1)
"{x}".format(1)
"{:d}".format("a")
"{:d}".format(1.5)
"{".format(1)
"{} {} {}".format(none, true, [1, "a"])
"{:5}|{:5}|".format(true, 1.5)
"%s is %d" % ("x", 5)
"%s" % name
"%s %s" % (1,)
"%s" % (1, 2)
"%d%%" % 50
"%5.1f|%-5d|%05d|%+d" % (3.14159, 42, 42, 42)
"%x %X %o" % (255, 255, 8)
"%(a)s-%(b)d" % {"a": 1, "b": 2}
"%d" % 3.9
"%d" % "3"
"%.2s|%5s|" % ("abc", "ab")
"%r" % "a"
"%e %g" % (12345.678, 0.0001)
"none" % ()
"none" % 1
"%s, %s!" | format("Hi", name)
"%(a)s" | format(a=1)
# methods of dicts and lists
user.get("name")
user.get("x")
user.get("x", "d")
user.get("x") is none
user.keys()
{"a": 1, "b": 2}.items()
{"a": 1}.values()
user.keys() | list
user.keys() | length
{"a": 1}.items() | list
user.keys()[0]
user.keys() | first
{"a": 1, "b": 2}.copy()
words.index("fig")
words.index("nope")
[1, 2, 1.0, true].count(1)
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
"hELLO" | capitalize
"a\nb\n\nc" | indent
"a\nb\n\nc" | indent(2, true)
"a\nb\n\nc" | indent(2, false, true)
"a\nb" | indent("> ", first=true)
"a\nb\n" | indent(1)
5 | indent
"a-a-a" | replace("-", "+")
"a-a-a" | replace("-", "+", 1)
123 | replace(2, "x")
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
"<a href='x'>&\"</a>" | e
"<b>" | escape
"<b>" | safe
("<b>" | safe) + "<i>"
"<i>" + ("<b>" | safe)
("<b>" | safe) ~ "<i>"
["<b>" | safe]
("<b>" | safe).upper()
("<b>x" | safe).replace("x", "<i>")
("<b>%s" | safe) % "<i>"
("<b>{}" | safe).format("<i>")
("," | safe).join(["<", "x" | safe])
("<b>" | safe)[0] + "<"
("<b>" | safe) | upper + "<"
("<b>" | safe) | trim + "<"
("<b>" | e | e)
("a" | safe) is string
("a" | safe) == "a"
"a b c" | wordcount
"hello big world" | truncate(9, leeway=0)
"hello big world" | truncate(9, true, leeway=0)
"hello" | truncate(3, true, "", 0)
"ab" | center(6) ~ "|"
5 | string + "x"
[1, "a"] | string
none | string
missing | string
# filters on numbers
"42" | int
" -7 " | int
"4.9" | int
"x" | int
"x" | int(5)
"x" | int(default=-1)
"ff" | int(base=16)
"0xff" | int(base=16)
"0b11" | int(0, 0)
"1_000" | int
4.9 | int
-4.9 | int
none | int
[] | int(3)
true | int
"inf" | int
"1e3" | int
missing | int
"1.5" | float
"x" | float
"x" | float(2.5)
"  1e3 " | float
"inf" | float
"-Infinity" | float
"nan" | float
"1_0.5" | float
"1__0" | float
"_1" | float
"." | float
"1." | float
".5" | float
7 | float
none | float
-5 | abs
(-5) | abs
-5.5 | abs
"a" | abs
3.7 | round
2.5 | round
3.5 | round
2.675 | round(2)
1234.5 | round(-2)
7 | round
15 | round(-1)
25 | round(-1)
-15 | round(-1)
3.2 | round(method="ceil")
3.789 | round(2, "floor")
3.789 | round(2, "up")
"a" | round
1e300 | round(2)
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
people[:2] | sort(attribute="role,age") | map(attribute="name") | list
[3, "a"] | sort
words | unique | list
[1, 1.0, true, 2] | unique | list
words | unique(true) | list
[[1]] | unique | list
numbers | sum
numbers | sum(start=10)
[[1], [2]] | sum(start=[])
people[:2] | sum("age")
numbers | min
numbers | max
words | min
words | max(case_sensitive=true)
[] | max
people[:2] | max(attribute="age")
[1, 2, 3, 4, 5] | batch(2) | list
[1, 2, 3] | batch(2, "-") | list
user | dictsort
user.home | dictsort
{"b": 1, "A": 2} | dictsort
{"b": 1, "A": 2} | dictsort(true)
{"b": 1, "a": 2} | dictsort(false, "value")
{"b": 1, "a": 2} | dictsort(reverse=true)
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
words | map("length") | sum
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
schema | tojson(indent="--")
schema | tojson(separators=(",", ":"))
schema | tojson(indent=4, separators=(",", ": "))
schema | tojson(sort_keys=true)
wide | tojson
wide | tojson(ensure_ascii=true)
"\x00\x1f\x7f\"\\/\b\f\n\r\t" | tojson
"\x7f" | tojson(true)
none | tojson
1.0 | tojson
1e100 | tojson
big | tojson
(1, 2) | tojson
{1: 2, 1.5: 3, none: 4, true: 5} | tojson
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
7.5 is odd
"a" is odd
n is eq 7
n is equalto(7)
n is ne 7
n is gt 5
n is lessthan 5
n is ge 7 and n is le 7
1 is in [1, 2]
3 is not in [1, 2]
"a" is in "abc"
nothing is sameas none
1 is sameas true
"abc" is lower
"ABC" is upper
"aBc" is lower
range is callable
name is callable
"trim" is filter
"nosuch" is filter
"defined" is test
n is nosuch
not n is defined
n is defined and n > 5
1 + 1 is number
n is number is string
# globals
range(3)
range(1, 10, 3) | list
range(5, 0, -2) | list
range(0)
range(1, 2, 0)
range("a")
range(100000) | length
range(100001) | length
range(-100000, 1000000000, 1)
dict(a=1, b="x")
dict({"a": 1}, b=2)
dict([("a", 1), ("b", 2)])
dict(**{"x": 1})
dict(1)
namespace(a=1).a
namespace({"a": 1}, b=2).b
namespace(a=1).missing
namespace(a=1)["a"]
strftime_now("%Y-%m-%d")
strftime_now("%d %b %Y")
strftime_now("%A, %B %d, %Y %H:%M:%S %p %I %j %y %a %-d %e %%")
# precedence and calls
-1 | abs
-1.abs
2 * 3 | string
"a" ~ "b" | upper
("a" ~ "b") | upper
[3, 1] | sort | first
1 if 0 else 2 | string
"%s" % "a" | upper
not name is string
name is string and n is number
words | map("upper") | join(", ") | lower
user.tags | join(separator="x")
user.tags | join("a", "b", "c")
words | nosuchfilter
words | first | last
[1, 2] | join(*["-"])
"{} {}".format(*["a", "b"])
dict(**user).name
dict(**5)
range(*[1, 3]) | list
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
    "{% raw %}{{ not }} {% this %}{% endraw %}!",
    "a\n  {% raw %}\n  {{ x }}\n  {% endraw %}\nb",
    "a  {%- raw -%}  {{ x }}  {%- endraw -%}  b",
    "{% raw %}unclosed",
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
    "{% for w in words %}{{ loop.cycle('a', 'b', 'c') }}{% endfor %}",
    "{% for w in words if w != 'fig' %}{{ loop.index }}/{{ loop.length }}{{ w }}{{ loop.last }} {% endfor %}",
    "{% for w in words if w == 'none' %}x{% else %}nothing{% endfor %}",
    "{% for k, v in user.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in user | items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in user %}{{ k }};{% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
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
    "{% for x in [1, 2] %}{{ loop }}{% endfor %}",
    "{% for x in [1] recursive %}{{ x }}{% endfor %}#ours",
    "{% for w in words | reverse %}{{ w }} {% endfor %}",
    "{% for w in words | map('upper') %}{{ loop.index }}/{{ loop.length }}{{ w }} {% endfor %}",
    "{% set g = words | map('upper') %}{% for w in g %}{{ w }}{% endfor %}|{% for w in g %}{{ w }}{% endfor %}",
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
    "{% set x | upper | replace('A', 'z') %}a{{ 1 }}b{% endset %}[{{ x }}]",
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
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m() %}{{ name }}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }}",
    "{% macro m() %}{% set name = 'x' %}{{ name }}{% endmacro %}{{ m() }}{{ name }}",
    "{% macro down(k) %}{{ k }}{% if k > 0 %}{{ down(k - 1) }}{% endif %}{% endmacro %}{{ down(3) }}",
    "{% for i in [1, 2] %}{{ m is defined }}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body{{ name }}{% endcall %}",
    "{% macro m() %}{% for i in [1, 2] %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(x) m() %}<{{ x }}>{% endcall %}",
    "{% macro m() %}x{% endmacro %}{% call m() %}body{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% call name %}x{% endcall %}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(m(m('deep'))) }}",
    "{% macro m() %}a\n{% endmacro %}{{ m() | trim }}|{{ m() | length }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{{ m() }}{% macro m() %}x{% endmacro %}",
    "{% macro j(v) %}{% if v is mapping %}{{ '{' }}{% for k, x in v.items() %}{{ k }}:{{ j(x) }}{% if not loop.last %},{% endif %}{% endfor %}{{ '}' }}{% elif v is iterable and v is not string %}[{% for x in v %}{{ j(x) }} {% endfor %}]{% else %}{{ v }}{% endif %}{% endmacro %}{{ j(user) }}",
    # filter blocks, with, generation
    "{% filter upper %}a{{ name }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}banana{% endfilter %}",
    "{% filter nosuch %}x{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}",
    "{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a is defined }}",
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
