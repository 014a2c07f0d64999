"""Whole chat templates for make_goldens.py, one in the manner of each family of models, and the
conversations they are tried on. The templates are written for these tests: they use the constructs
that a family's own template uses, not its text."""

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather_at",
        "description": "Weather of a \"place\" <today> & tomorrow",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "Where,\nas a name"},
                "days": {"type": "integer", "default": 2},
                "unit": {"type": ["string", "null"], "enum": ["C", "F"]},
                "points": {"type": "array", "items": {"type": "number"}},
            },
            "required": ["place"],
        },
    },
}
CLOCK = {
    "type": "function",
    "function": {"name": "clock", "description": "", "parameters": {"type": "object", "properties": {}}},
}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def call(arguments, name="weather_at", identity="call01234"):
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


CONVERSATIONS = [
    [user("Good morning")],
    [system("  Be brief. "), user(" Hi \n")],
    [user("one"), assistant("two"), user("drei 東京 🚀 é")],
    [system("S"), user("a"), assistant("b\n"), user("c"), assistant("d")],
    [assistant("I start"), user("no")],
    [user("twice"), user("in a row")],
    [],
    [user("q"), assistant("<think>\nlong\n</think>\n\nshort"), user("r"),
     assistant("final", reasoning_content="why")],
    [user("w?"), assistant("", tool_calls=[call({"place": "Oslo", "days": 1, "unit": None, "points": [1, 2.5], "now": True})]),
     {"role": "tool", "name": "weather_at", "tool_call_id": "call01234", "content": "{\"t\": -3}"},
     assistant("-3"), user("thanks")],
    [user("w?"), assistant("looking", tool_calls=[call({"place": "A"}), call({}, "clock", "call56789")]),
     {"role": "tool", "tool_call_id": "call01234", "content": "1"},
     {"role": "tool", "tool_call_id": "call56789", "content": {"hour": 5, "zone": "ü"}}],
    [user("w?"), {"role": "assistant", "tool_calls": [call("{\"place\": \"B\"}")]},
     {"role": "tool", "content": "ok"}],
    [user([{"type": "text", "text": "see"}, {"type": "image"}, {"type": "text", "text": "this"}])],
    [{"role": "wizard", "content": "abra"}],
    [user(None)],
]

# Each conversation is rendered with each of these.
VARIANTS = [
    {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, "tools": None},
    {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": False, "tools": [WEATHER, CLOCK],
     "enable_thinking": False},
]

TEMPLATES = {}

# One line, brackets instead of dots, concatenation in the output: the oldest style.
TEMPLATES["chatml"] = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")

# Line breaks in the template text itself, removed by trim_blocks.
TEMPLATES["zephyr"] = r"""{% for m in messages %}
{% if m['role'] == 'user' %}
{{ '<|user|>\n' ~ m['content'] ~ eos_token }}
{% elif m['role'] == 'system' %}
{{ '<|system|>\n' ~ m['content'] ~ eos_token }}
{% elif m['role'] == 'assistant' %}
{{ '<|assistant|>\n' ~ m['content'] ~ eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
"""

# A system turn folded into the first user turn; roles must take turns.
TEMPLATES["llama-2"] = r"""{% if messages and messages[0]['role'] == 'system' %}
{% set turns = messages[1:] %}{% set lead = messages[0]['content'] %}
{% else %}
{% set turns = messages %}{% set lead = false %}
{% endif %}
{% for turn in turns %}
{% if (turn['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Turns of user and assistant must alternate, turn ' ~ loop.index ~ ' does not') }}
{% endif %}
{% if loop.index0 == 0 and lead != false %}
{% set body = '<<SYS>>\n' + lead.strip() + '\n<</SYS>>\n\n' + turn['content'] %}
{% else %}
{% set body = turn['content'] %}
{% endif %}
{% if turn['role'] == 'user' %}
{{ bos_token + '[INST] ' + body.strip() + ' [/INST]' }}
{% elif turn['role'] == 'assistant' %}
{{ ' ' + body.strip() + ' ' + eos_token }}
{% endif %}
{% endfor %}"""

TEMPLATES["llama-3"] = r"""{% set turns = messages %}{% for turn in turns %}{% set piece = '<|start_header_id|>' + turn['role'] + '<|end_header_id|>\n\n' + turn['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set piece = bos_token + piece %}{% endif %}{{ piece }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""

TEMPLATES["llama-3.1"] = r"""{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not inline_tools is defined %}
    {%- set inline_tools = true %}
{%- endif %}
{%- if not today is defined %}
    {%- if strftime_now is defined %}
        {%- set today = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set today = "1 Jan 2000" %}
    {%- endif %}
{%- endif %}
{#- The system turn, when there is one, goes first. #}
{%- if messages and messages[0]['role'] == 'system' %}
    {%- set lead = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set lead = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}
    {{- "Environment: " ~ ('code' if builtin is defined else 'plain') ~ "\n" }}
{%- endif %}
{{- "Today: " + today + "\n\n" }}
{%- if tools is not none and not inline_tools %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- lead }}
{{- "<|eot_id|>" }}
{%- if inline_tools and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first = messages[0]['content'] | trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("There is no user turn to put the tools into") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\n\n' -}}
    {{- 'Answer with {"name": ..., "parameters": ...}.\n\n' }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
    {{- first + "<|eot_id|>" }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("One tool at a time, not " ~ message.tool_calls | length) }}
        {%- endif %}
        {%- set wanted = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
        {{- '{"name": "' + wanted.name + '", ' }}
        {{- '"parameters": ' }}
        {{- wanted.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""

TEMPLATES["mistral-v1"] = (
    "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('user and assistant must take turns') }}{% endif %}{% if m['role'] == 'user' %}"
    "{{ '[INST] ' + m['content'] + ' [/INST]' }}{% elif m['role'] == 'assistant' %}{{ m['content'] + eos_token + ' ' }}"
    "{% else %}{{ raise_exception('unknown role ' + m['role']) }}{% endif %}{% endfor %}")

# Tools before the last user turn, identifiers of nine characters, counters in a namespace.
TEMPLATES["mistral-v3"] = r"""{%- if messages and messages[0]["role"] == "system" %}
    {%- set lead = messages[0]["content"] %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set turns = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set asked = turns | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in turns %}
    {%- if not ((message.role == "tool" or message.role == "tool_results") or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the system turn, user and assistant alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in turns %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == asked[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val | tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and lead is defined %}
            {{- "[INST] " + lead + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function | tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id | length != 9 %}
                {{- raise_exception("identifiers of calls have nine characters") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] | trim + eos_token }}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content | string + ", " }}
        {{- '"call_id": "' + (message.tool_call_id | default("none")) + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("roles are user, assistant, tool; not " + message["role"]) }}
    {%- endif %}
{%- endfor %}
"""

# Content in parts, a default system prompt with today's date, macros for repeated pieces.
TEMPLATES["mistral-v7"] = r"""{%- set today = strftime_now("%Y-%m-%d") %}
{%- set default_lead = "You are a model. The date is " + today + ".\n\n'Quotes' stay." %}
{{- bos_token }}
{%- if messages and messages[0]['role'] == 'system' %}
    {%- if messages[0]['content'] is string %}
        {%- set lead = messages[0]['content'] %}
    {%- else %}
        {%- set lead = messages[0]['content'][0]['text'] %}
    {%- endif %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set lead = default_lead %}
    {%- set turns = messages %}
{%- endif %}
{{- '[SYSTEM_PROMPT]' + lead + '[/SYSTEM_PROMPT]' }}
{%- for message in turns %}
    {%- if message['role'] == 'user' %}
        {%- if message['content'] is string %}
            {{- '[INST]' + message['content'] + '[/INST]' }}
        {%- else %}
            {{- '[INST]' }}
            {%- for block in message['content'] %}
                {%- if block['type'] == 'text' %}
                    {{- block['text'] }}
                {%- elif block['type'] in ['image', 'image_url'] %}
                    {{- '[IMG]' }}
                {%- else %}
                    {{- raise_exception('only text and images: ' ~ block['type']) }}
                {%- endif %}
            {%- endfor %}
            {{- '[/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'assistant' %}
        {%- if message['tool_calls'] is defined and message['tool_calls'] %}
            {%- for c in message['tool_calls'] %}
                {%- set args = c['function']['arguments'] %}
                {%- set args = args if args is string else args | tojson %}
                {{- '[TOOL_CALLS]' + c['function']['name'] + '[ARGS]' + args }}
            {%- endfor %}
            {{- eos_token }}
        {%- elif message['content'] is string %}
            {{- message['content'] + eos_token }}
        {%- else %}
            {{- message['content'][0]['text'] + eos_token }}
        {%- endif %}
    {%- elif message['role'] == 'tool' %}
        {{- '[TOOL_RESULTS]' + message['content'] | string + '[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception('no such role') }}
    {%- endif %}
{%- endfor %}
"""

# Tools as lines of JSON, answers of tools gathered under one user turn.
TEMPLATES["qwen-2.5"] = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages and messages[0].role == 'system' %}
        {{- messages[0].content }}
    {%- else %}
        {{- 'You help people.' }}
    {%- endif %}
    {{- "\n\n# Tools\n\nEach line between the tags is a tool:\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>\n\nCall one so:\n<tool_call>\n{\"name\": <name>, \"arguments\": <object>}\n</tool_call><|im_end|>\n" }}
{%- else %}
    {%- if messages and messages[0].role == 'system' %}
        {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou help people.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- message.content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""

# Looks for the last real question from the end; keeps thoughts only after it.
TEMPLATES["qwen-3"] = r"""{%- set ns = namespace(searching=true, last_question=messages | length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last_question = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "user" or message.role == "system" %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thoughts = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thoughts = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thoughts = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_question and (loop.last or (not loop.last and thoughts)) %}
            {{- '<|im_start|>' + message.role + '\n<think>\n' + thoughts.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\n' }}
                {%- endif %}
                {%- set f = tool_call.function or tool_call %}
                {{- '<tool_call>\n{"name": "' ~ f.name ~ '", "arguments": ' }}
                {%- if f.arguments is string %}
                    {{- f.arguments }}
                {%- else %}
                    {{- f.arguments | tojson }}
                {%- endif %}
                {{- '}\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or loop.previtem.role != "tool" %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' ~ message.content ~ '\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != "tool" %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
"""

# Parameters as tags: items of nested dictionaries, keys left over, values printed as Python does.
TEMPLATES["qwen-coder"] = r"""{% macro extra_keys(dict, known) %}
    {%- if dict is mapping %}
        {%- for key in dict | list if key not in known %}
            {%- set value = dict[key] | tojson | safe if dict[key] is mapping or (dict[key] is sequence and dict[key] is not string) else dict[key] | string %}
            {{- '\n<' ~ key ~ '>' ~ value ~ '</' ~ key ~ '>' }}
        {%- endfor %}
    {%- endif %}
{% endmacro %}
{%- if not tools is defined or tools is none %}
    {%- set tools = [] %}
{%- endif %}
{%- if tools | length > 0 %}
    {{- '<|im_start|>system\n<tools>' }}
    {%- for tool in tools %}
        {%- set f = tool.function if tool.function is defined else tool %}
        {{- '\n<function>\n<name>' ~ f.name ~ '</name>' }}
        {{- '\n<description>' ~ (f.description | trim) ~ '</description>' if f.description else '' }}
        {{- '\n<parameters>' }}
        {%- for name, fields in (f.parameters.properties | default({})) | items %}
            {{- '\n<parameter>\n<name>' ~ name ~ '</name>' }}
            {%- if fields.type is defined %}
                {{- '\n<type>' ~ (fields.type | string) ~ '</type>' }}
            {%- endif %}
            {{- extra_keys(fields, ['name', 'type']) }}
            {{- '\n</parameter>' }}
        {%- endfor %}
        {{- extra_keys(f.parameters, ['type', 'properties']) }}
        {{- '\n</parameters>\n</function>' }}
    {%- endfor %}
    {{- '\n</tools><|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role }}
    {%- if message.content is string and message.content | trim | length > 0 %}
        {{- '\n' + message.content | trim + '\n' }}
    {%- endif %}
    {%- for c in message.tool_calls or [] %}
        {{- '\n<function=' + c.function.name + '>' }}
        {%- if c.function.arguments is mapping %}
            {%- for key, value in c.function.arguments | items %}
                {{- '\n<parameter=' ~ key ~ '>\n' }}
                {%- set value = value | tojson | safe if value is mapping or (value is sequence and value is not string) else value | string %}
                {{- value }}
                {{- '\n</parameter>' }}
            {%- endfor %}
        {%- endif %}
        {{- '\n</function>' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
"""

TEMPLATES["smollm-2"] = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are small and helpful.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")

# Modes by words in the system prompt, generation marks around what the assistant said.
TEMPLATES["smollm-3"] = r"""{# Defaults. #}
{%- if enable_thinking is not defined -%}
{%- set enable_thinking = true -%}
{%- endif -%}
{%- if enable_thinking -%}
  {%- set mode = "/think" -%}
{%- else -%}
  {%- set mode = "/no_think" -%}
{%- endif -%}
{%- if messages and messages[0].role == "system" -%}
  {%- set lead = messages[0].content -%}
  {%- if "/no_think" in lead -%}
    {%- set mode = "/no_think" -%}
  {%- endif -%}
  {%- set own = lead.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{{- "<|im_start|>system\n" -}}
{{- "## Facts\n\n" -}}
{{- "Date: " ~ strftime_now("%d %B %Y") ~ "\nMode: " ~ mode ~ "\n\n" -}}
{%- if own -%}
  {{- own ~ "\n\n" -}}
{%- endif -%}
{%- if tools -%}
  {{- "### Tools\n\n" -}}
  {%- set ns = namespace(text="<tools>\n") -%}
  {%- for tool in tools -%}
    {%- set line = tool | string -%}
    {%- set ns.text = ns.text ~ line ~ "\n" -%}
  {%- endfor -%}
  {{- ns.text + "</tools>" + "\n\n" -}}
{%- endif -%}
{{- "<|im_end|>\n" -}}
{%- for message in messages -%}
  {%- set content = message.content if message.content is string else "" -%}
  {%- if message.role == "user" -%}
    {{ "<|im_start|>user\n" + content + "<|im_end|>\n" }}
  {%- elif message.role == "assistant" -%}
    {% generation %}
    {%- if mode == "/think" -%}
      {{ "<|im_start|>assistant\n" + content.lstrip("\n") + "<|im_end|>\n" }}
    {%- else -%}
      {{ "<|im_start|>assistant\n" + "<think>\n\n</think>\n" + content.lstrip("\n") + "<|im_end|>\n" }}
    {%- endif -%}
    {% endgeneration %}
  {%- elif message.role == "tool" -%}
    {{ "<|im_start|>user\n" + content + "<|im_end|>\n" }}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {%- if mode == "/think" -%}
    {{ "<|im_start|>assistant\n" }}
  {%- else -%}
    {{ "<|im_start|>assistant\n" + "<think>\n\n</think>\n" }}
  {%- endif -%}
{%- endif -%}
"""

TEMPLATES["phi-3"] = (
    "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}"
    "{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
    "{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}")

TEMPLATES["gemma"] = r"""{{ bos_token }}
{%- if messages and messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set prefix = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set prefix = "" -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for turn in turns -%}
    {%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (turn['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = turn['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\n' + (prefix if loop.first else "") }}
    {%- if turn['content'] is string -%}
        {{ turn['content'] | trim }}
    {%- elif turn['content'] is iterable -%}
        {%- for part in turn['content'] -%}
            {%- if part['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif part['type'] == 'text' -%}
                {{ part['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("content must be text or parts") }}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\n' }}
{%- endif -%}
"""

# Many flags in one namespace, long sums of strings.
TEMPLATES["deepseek"] = r"""{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}
{%- set ns = namespace(first=false, in_tools=false, lead='', start=true) %}
{%- for message in messages %}
    {%- if message['role'] == 'system' %}
        {%- if ns.start %}{% set ns.lead = ns.lead + message['content'] %}{% set ns.start = false %}
        {%- else %}{% set ns.lead = ns.lead + '\n\n' + message['content'] %}{% endif %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}{{ ns.lead }}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}
        {%- set ns.in_tools = false -%}
        {{- '<｜User｜>' + (message['content'] or '') | string }}
    {%- endif %}
    {%- if message['role'] == 'assistant' and message['tool_calls'] is defined and message['tool_calls'] is not none %}
        {%- for tool in message['tool_calls'] %}
            {%- if not ns.first %}
                {{- '<｜Assistant｜><｜calls▁begin｜><｜call▁begin｜>' + tool['type'] + '<｜sep｜>' + tool['function']['name'] + '\n' + '```json' + '\n' + (tool['function']['arguments'] | tojson) + '\n' + '```' + '<｜call▁end｜>' }}
                {%- set ns.first = true %}
            {%- else %}
                {{- '\n' + '<｜call▁begin｜>' + tool['type'] + '<｜sep｜>' + tool['function']['name'] + '\n' + '```json' + '\n' + (tool['function']['arguments'] | tojson) + '\n' + '```' + '<｜call▁end｜>' }}
            {%- endif %}
        {%- endfor %}
        {{- '<｜calls▁end｜><｜end｜>' }}
    {%- elif message['role'] == 'assistant' %}
        {%- set content = message['content'] %}
        {%- if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}
        {{- '<｜Assistant｜>' + content + '<｜end｜>' }}
    {%- endif %}
    {%- if message['role'] == 'tool' %}
        {%- if ns.in_tools %}{{ '\n<｜output▁begin｜>' ~ message['content'] ~ '<｜output▁end｜>' }}
        {%- else %}{{ '<｜outputs▁begin｜><｜output▁begin｜>' ~ message['content'] ~ '<｜output▁end｜>' }}{% set ns.in_tools = true %}
        {%- endif %}
    {%- endif %}
{%- endfor -%}
{% if ns.in_tools %}{{ '<｜outputs▁end｜>' }}{% endif %}{% if add_generation_prompt and not ns.in_tools %}{{ '<｜Assistant｜><think>\n' }}{% endif %}"""

# Types of parameters written as Python by a macro that calls itself.
TEMPLATES["command-r"] = r"""{%- macro python_type(schema) %}
{%- set names = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}
{%- if schema.type is string and schema.type in names %}{{ names[schema.type] }}
{%- elif schema.type == "array" %}{{ "List[" + python_type(schema["items"]) + "]" }}
{%- elif schema.type == "object" %}
{%- if schema.additionalProperties is defined %}{{ "Dict[str, " + python_type(schema.additionalProperties) + "]" }}
{%- else %}{{ "Dict" }}{% endif %}
{%- elif schema.type is iterable and schema.type is not string %}
{%- set ns = namespace(parts=[]) %}
{%- for t in schema.type %}{% set ns.parts = ns.parts + [python_type({"type": t}) or "None"] %}{% endfor %}
{{- "Union[" + ns.parts | join(",") + "]" }}
{%- else %}{{ "" }}{% endif %}
{%- endmacro %}
{{- bos_token + "<|START|>" }}
{%- for tool in tools or [] %}
{{- "```python\ndef " + tool.function.name + "(" }}
{%- set needed = tool.function.parameters.required | default([]) %}
{%- for name, schema in tool.function.parameters.properties.items() %}
{%- set type = python_type(schema) %}
{{- name + ": " + (type if name in needed else "Optional[" + type + "] = " + (schema.default | tojson if schema.default is defined else "None")) }}
{%- if not loop.last %}{{ ", " }}{% endif %}
{%- endfor %}
{{- ') -> List[Dict]:\n    \"\"\"' ~ tool.function.description | replace("\n", " ") ~ '\n' }}
{%- for name, schema in tool.function.parameters.properties | dictsort %}
{%- if loop.first %}{{ "\n    Args:" }}{% endif %}
{{- "\n        " ~ name ~ " (" ~ python_type(schema) | trim ~ "): " ~ schema.description | default("") | indent(12) }}
{%- endfor %}
{{- '\n    \"\"\"\n    pass\n```\n' }}
{%- endfor %}
{%- for message in messages %}
{%- if message.role | lower == 'user' and message.content is string %}
{{- '<|USER|>' ~ message.content | trim ~ '<|END|>' }}
{%- elif message.role == 'assistant' %}
{{- '<|CHATBOT|>' }}{%- if message.tool_calls %}{{ "\nAction: ```json\n[\n" }}
{%- for c in message.tool_calls %}
{{- '    {\n        "tool_name": "' ~ c.function.name ~ '",\n        "parameters": ' ~ c.function.arguments | tojson(indent=4) | indent(8) ~ '\n    }' }}
{{- ",\n" if not loop.last else "\n]```" }}
{%- endfor %}
{%- else %}{{ message.content | trim }}{% endif %}{{ '<|END|>' }}
{%- elif message.role == 'tool' %}
{{- '<|SYSTEM|><results>\nDocument: ' ~ loop.index0 ~ "\n" }}
{%- if message.content is mapping %}{% for k, v in message.content.items() %}{{ k ~ ": " ~ v ~ "\n" }}{% endfor %}
{%- else %}{{ message.content }}{% endif %}{{ '</results><|END|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|CHATBOT|>' }}{% endif %}"""

