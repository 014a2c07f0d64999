"""More templates for make_goldens.py, written for these tests like those of conversations.py: the
constructs that newer families use for documents, images, thoughts, channels and tools."""

import conversations

# Each conversation is rendered with each of these.
VARIANTS = [
    *conversations.VARIANTS,
    {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, "tools": [conversations.CLOCK], "thinking": True,
     "documents": [{"title": "A", "text": "one"}, {"title": "B", "text": "zwei ü"}],
     "controls": {"citations": True, "length": "short"}},
]

TEMPLATES = {}

# No mention of roles beyond a capitalized name; a system prompt without a tag.
TEMPLATES["vicuna"] = (
    "{% for message in messages %}{% if message['role'] == 'system' %}{{ message['content'] + ' ' }}{% else %}"
    "{{ message['role'].capitalize() ~ ': ' ~ message['content'] ~ ('\n' if not loop.last else '') }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt and messages[-1].role != 'assistant' %}{{ '\nAssistant:' }}{% endif %}")

# Instruction headings and a running index of questions.
TEMPLATES["alpaca"] = r"""{%- set ns = namespace(count=0) -%}
{%- for message in messages -%}
{%- if message['role'] == 'user' -%}
{%- set ns.count = ns.count + 1 -%}
### Question {{ ns.count }} ({{ loop.revindex }} to go, {{ loop.revindex0 }}):
{{ message['content'] }}

{% elif message['role'] == 'assistant' %}
### {{ message.role | title }}:
{{ message['content'] }}{% if not loop.last %}{{ "\n\n" }}{% endif %}
{%- endif -%}
{%- else -%}
No messages.
{%- endfor -%}
{%- if add_generation_prompt %}{{ '### Assistant:\n' }}{% endif -%}"""

# Images and audio as parts, with counters.
TEMPLATES["phi-4-multimodal"] = r"""{%- set count = namespace(image=0, audio=0) -%}
{%- for message in messages -%}
{{- '<|' + message['role'] + '|>' -}}
{%- if message['role'] == 'system' and tools is defined and tools -%}
{{- message['content'] + '<|tool|>' + (tools if tools is string else tools | tojson) + '<|/tool|>' -}}
{%- elif message['content'] is string -%}
{{- message['content'] -}}
{%- elif message['content'] is not none -%}
{%- for part in message['content'] -%}
{%- if part['type'] == 'image' -%}
{%- set count.image = count.image + 1 -%}
{{- '<|image_' ~ count.image ~ '|>' -}}
{%- elif part.type == 'audio' -%}
{%- set count.audio = count.audio + 1 -%}
{{- '<|audio_' ~ count.audio ~ '|>' -}}
{%- elif part.type in ['text', 'input_text'] -%}
{{- part['text'] -}}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{- '<|end|>' -}}
{%- endfor -%}
{{- '<|assistant|>' if add_generation_prompt else eos_token -}}"""

# A prompt that names the end of the text only behind answers of the assistant.
TEMPLATES["olmo"] = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}"
    "{{ '<|system|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'user' %}"
    "{{ '<|user|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'assistant' %}"
    "{% if not loop.last %}{{ '<|assistant|>\n' + message['content'] + eos_token + '\n' }}"
    "{% else %}{{ '<|assistant|>\n' + message['content'] + eos_token }}{% endif %}{% endif %}"
    "{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}")

# Set blocks, documents, flags of controls, indented JSON, dates in English.
TEMPLATES["granite"] = r"""{%- if messages and messages[0]['role'] == 'system' %}
    {%- set lead = messages[0]['content'] %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set lead = "Today's Date: " + strftime_now('%B %d, %Y') + ".\nYou are a model." %}
    {%- if tools and documents %}
        {%- set lead = lead + " Use the tools and the documents." %}
    {%- elif tools %}
        {%- set lead = lead + " Use the tools." %}
    {%- elif documents %}
        {%- set lead = lead + " Use the documents." %}
    {%- elif thinking %}
        {%- set lead = lead + " Think." %}
    {%- endif %}
    {%- if 'citations' in controls and documents %}
        {%- set lead = lead + '\nCite as <co>1</co>.' %}
    {%- endif %}
    {%- set turns = messages %}
{%- endif %}
{%- set shown_tools %}
{%- if tools %}
{{ tools | tojson(indent=4) }}
{%- endif %}
{% endset %}
{{- '<|start_of_role|>system<|end_of_role|>' + lead + '<|end_of_text|>\n' }}
{%- if tools %}
    {{- '<|start_of_role|>tools<|end_of_role|>' }}
    {{- shown_tools | trim }}
    {{- '<|end_of_text|>\n' }}
{%- endif %}
{%- if documents %}
    {{- '<|start_of_role|>documents<|end_of_role|>' }}
    {%- for document in documents %}
        {{- 'Document ' + loop.index | string + '\n' }}
        {{- document['text'] }}
        {%- if not loop.last %}
            {{- '\n\n'}}
        {%- endif%}
    {%- endfor %}
    {{- '<|end_of_text|>\n' }}
{%- endif %}
{%- for message in turns %}
    {{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + (message['content'] or '') | string + '<|end_of_text|>\n' }}
    {%- if loop.last and add_generation_prompt %}
        {{- '<|start_of_role|>assistant' }}
        {%- if controls %}
            {{- ' ' + controls | tojson() }}
        {%- endif %}
        {{- '<|end_of_role|>' }}
    {%- endif %}
{%- endfor %}"""

# Types as TypeScript by macros with default arguments that call one another; channels; the last
# thought is kept.
TEMPLATES["gpt-oss"] = r"""{%- macro type_of(spec, required_names, nullable=false) -%}
    {%- if spec.type == "array" -%}
        {%- if spec['items'] -%}
            {%- if spec['items']['type'] == "string" -%}
                {{- "string[]" }}
            {%- elif spec['items']['type'] in ["number", "integer"] -%}
                {{- "number[]" }}
            {%- else -%}
                {{- type_of(spec['items'], required_names) + "[]" }}
            {%- endif -%}
        {%- else -%}
            {{- "any[]" }}
        {%- endif -%}
        {%- if nullable -%}{{- " | null" -}}{%- endif -%}
    {%- elif spec.type is defined and spec.type is iterable and spec.type is not string and spec.type is not mapping and spec.type[0] is defined -%}
        {%- if spec.type | length > 1 -%}
            {{- spec.type | join(" | ") }}
        {%- else -%}
            {{- spec.type[0] }}
        {%- endif -%}
    {%- elif spec.oneOf -%}
        {%- for variant in spec.oneOf -%}
            {{- type_of(variant, required_names) -}}
            {%- if not loop.last %}{{- " | " }}{% endif -%}
        {%- endfor -%}
    {%- elif spec.type == "string" -%}
        {%- if spec.enum -%}
            {{- '"' + spec.enum | join('" | "') + '"' -}}
        {%- else -%}
            {{- "string" }}
            {%- if spec.nullable %}{{- " | null" -}}{%- endif -%}
        {%- endif -%}
    {%- elif spec.type == "integer" or spec.type == "number" -%}
        {{- "number" }}
    {%- elif spec.type == "object" -%}
        {%- if spec.properties -%}
            {{- "{\n" }}
            {%- for name, inner in spec.properties.items() -%}
                {{- name -}}
                {%- if name not in (spec.required or []) -%}{{- "?" -}}{%- endif -%}
                {{- ": " }}
                {{ type_of(inner, spec.required or []) }}
                {%- if not loop.last -%}{{- ", " }}{%- endif -%}
            {%- endfor -%}
            {{- "}" }}
        {%- else -%}
            {{- "object" }}
        {%- endif -%}
    {%- else -%}
        {{- "any" }}
    {%- endif -%}
{%- endmacro -%}

{%- macro namespace_of(place, functions) -%}
    {{- "## " + place + "\n\n" }}
    {{- "namespace " + place + " {\n\n" }}
    {%- for entry in functions %}
        {%- set entry = entry.function %}
        {{- "// " + entry.description + "\n" }}
        {{- "type "+ entry.name + " = " }}
        {%- if entry.parameters and entry.parameters.properties %}
            {{- "(_: {\n" }}
            {%- for name, spec in entry.parameters.properties.items() %}
                {%- if spec.description %}
                    {{- "// " + spec.description + "\n" }}
                {%- endif %}
                {{- name }}
                {%- if name not in (entry.parameters.required or []) %}
                    {{- "?" }}
                {%- endif %}
                {{- ": " }}
                {{- type_of(spec, entry.parameters.required or []) }}
                {%- if spec.default is defined %}
                    {%- if spec.enum %}
                        {{- ", // default: " + spec.default }}
                    {%- elif spec.oneOf %}
                        {{- "// default: " + spec.default }}
                    {%- else %}
                        {{- ", // default: " + spec.default | tojson }}
                    {%- endif %}
                {%- endif %}
                {{- ",\n" if not loop.last else "\n" }}
            {%- endfor %}
            {{- "}) => any;\n\n" }}
        {%- else %}
            {{- "() => any;\n\n" }}
        {%- endif %}
    {%- endfor %}
    {{- "} // namespace " + place }}
{%- endmacro -%}

{%- macro head() -%}
    {%- if identity is not defined %}
        {%- set identity = "You are a model." %}
    {%- endif %}
    {{- identity + "\nCurrent date: " + strftime_now("%Y-%m-%d") + "\n\n" }}
    {%- if effort is not defined %}
        {%- set effort = "medium" %}
    {%- endif %}
    {{- "Effort: " + effort + "\n\n" }}
    {{- "# Channels: analysis, final." }}
    {%- if tools -%}
        {{- "\nCalls go to 'commentary': 'functions'." }}
    {%- endif -%}
{%- endmacro -%}
{{- "<|start|>system<|message|>" }}
{{- head() }}
{{- "<|end|>" }}
{%- if messages and (messages[0].role == "developer" or messages[0].role == "system") %}
    {%- set lead = messages[0].content %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set lead = "" %}
    {%- set turns = messages %}
{%- endif %}
{%- if lead or tools %}
    {{- "<|start|>developer<|message|>" }}
    {%- if lead %}
        {{- "# Instructions\n\n" }}
        {{- lead }}
        {{- "\n\n" }}
    {%- endif %}
    {%- if tools -%}
        {{- "# Tools\n\n" }}
        {{- namespace_of("functions", tools) }}
    {%- endif -%}
    {{- "<|end|>" }}
{%- endif %}
{%- set last_call = namespace(name=none) %}
{%- for message in turns -%}
    {%- if message.role == 'assistant' -%}
        {%- if message.content and "<|channel|>" in message.content %}
            {{- raise_exception("content holds channel tags") }}
        {%- endif %}
        {%- if "tool_calls" in message %}
            {%- set tool_call = message.tool_calls[0] %}
            {%- if tool_call.function %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {%- if message.content and message.thinking %}
                {{- raise_exception("content and thinking in one call") }}
            {%- elif message.content %}
                {{- "<|start|>assistant<|channel|>analysis<|message|>" + message.content + "<|end|>" }}
            {%- endif %}
            {{- "<|start|>assistant to=" }}
            {{- "functions." + tool_call.name + "<|channel|>commentary " }}
            {{- (tool_call.content_type if tool_call.content_type is defined else "json") + "<|message|>" }}
            {{- tool_call.arguments | tojson }}
            {{- "<|call|>" }}
            {%- set last_call.name = tool_call.name %}
        {%- elif loop.last and not add_generation_prompt %}
            {%- if "thinking" in message %}
                {{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}
            {%- endif %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|return|>" }}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
            {%- set last_call.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last_call.name is none %}
            {{- raise_exception("an answer of a tool that was not called") }}
        {%- endif %}
        {{- "<|start|>functions." + last_call.name }}
        {{- " to=assistant<|channel|>commentary<|message|>" + message.content | tojson + "<|end|>" }}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" ~ message.content ~ "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}"""

# Contents as parts by a macro, thoughts before the last question dropped, integers from words.
TEMPLATES["glm-4"] = r"""[gMASK]<sop>
{%- if tools -%}
<|system|>
# Tools
{% for tool in tools %}
{{ tool | tojson(ensure_ascii=False) }}
{% endfor %}
{%- endif -%}
{%- macro shown(content) -%}
    {%- if content is string -%}
        {{- content }}
    {%- elif content is iterable and content is not mapping -%}
        {%- for item in content -%}
            {%- if item is mapping and item.type == 'text' -%}
                {{- item.text }}
            {%- elif item is string -%}
                {{- item }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{- content }}
    {%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}
    {%- if m.role == 'user' %}
        {% set ns.last = loop.index0 -%}
    {%- endif %}
{%- endfor %}
{% for m in messages %}
{%- if m.role == 'user' -%}<|user|>
{{ shown(m.content) }}
{{- '/nothink' if (enable_thinking is defined and not enable_thinking and not shown(m.content).endswith("/nothink")) else '' -}}
{%- elif m.role == 'assistant' -%}
<|assistant|>
{%- set thoughts = '' %}
{%- set content = shown(m.content) %}
{%- if m.reasoning_content is string %}
    {%- set thoughts = m.reasoning_content %}
{%- elif '</think>' in content %}
    {%- set thoughts = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
    {%- set content = content.split('</think>')[-1].lstrip('\n') %}
{%- endif %}
{%- if loop.index0 > ns.last and thoughts -%}
{{ '\n<think>' + thoughts.strip() +  '</think>'}}
{%- else -%}
{{ '\n<think></think>' }}
{%- endif -%}
{%- if content.strip() -%}
{{ '\n' + content.strip() }}
{%- endif -%}
{% if m.tool_calls %}
{% for tc in m.tool_calls %}
{%- if tc.function %}
    {%- set tc = tc.function %}
{%- endif %}
{{ '\n<call>' + tc.name }}
{% set _args = tc.arguments %}
{% if _args is mapping %}{% for k, v in _args.items() %}
<arg_key>{{ k }}</arg_key>
<arg_value>{{ v | tojson(ensure_ascii=False) if v is not string else v }}</arg_value>
{% endfor %}{% endif %}
</call>{% endfor %}
{% endif %}
{%- elif m.role == 'tool' -%}
{%- if m.content is string -%}
{%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
    {{- '<|observation|>' }}
{%- endif %}
{{- '\n<answer>\n' }}
{{- m.content }}
{{- '\n</answer>' }}
{%- else -%}
<|observation|>{% for tr in m.content %}

<answer>
{{ tr.output if tr.output is defined else tr }}
</answer>{% endfor -%}
{% endif -%}
{%- elif m.role == 'system' -%}
<|system|>
{{ shown(m.content) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    <|assistant|>{{- '\n<think></think>' if (enable_thinking is defined and not enable_thinking) else '' -}}
{%- endif -%}"""

# Filters over lists of tools and turns.
TEMPLATES["filters"] = r"""{%- set roles = messages | map(attribute='role') | unique | sort | list -%}
roles: {{ roles | join(', ') }}
{% set asked = messages | selectattr('role', 'equalto', 'user') | list -%}
{%- set others = messages | rejectattr('role', 'in', ['user', 'system']) | list -%}
asked: {{ asked | length }} of {{ messages | count }}, others: {{ others | map(attribute='role') | map('upper') | join('+') }}
{% if asked -%}
first: {{ (asked | first).content }} last: {{ (asked | last)['content'] | string | indent(2) }}
{% endif -%}
named: {{ messages | selectattr('name', 'defined') | map(attribute='name') | list | tojson }}
calls: {{ messages | selectattr('tool_calls') | list | length }}
texts: {{ messages | map(attribute='content', default='') | select('string') | map('trim') | map('length') | list }}
lines: {% for line in (messages | map(attribute='content') | select('string') | join('\n')).splitlines() if line and line != 'no' %}{{ loop.index }}={{ line }}{% if not loop.last %};{% endif %}{% endfor %}

{%- for turn in messages | reverse %}
{% if turn.role == 'system' %}{% continue %}{% endif %}
{{ loop.index is even }} {{ loop.index is divisibleby(3) }} {{ turn.role | upper }}/{{ turn.role.title() }}
{%- if turn.content is none %}{% break %}{% endif %}
{%- endfor %}
{%- for tool in tools | default([], true) %}
{%- set f = tool.function %}
{{ f.name.replace('_', ' ').title() }} ({{ f.parameters.properties | length }}): {{ f.description | replace('"', "'") | default('none', true) }}
{%- for key, value in f.parameters.properties | dictsort %}
  {{ key }}{{ '*' if key in f.parameters.get('required', []) }}: {{ value.get('type', 'any') }}{{ value['enum'] | join('|') if value.enum is defined }}
{%- endfor %}
{%- for key in f.parameters.properties.keys() %}{% if key.startswith(('p', 'u')) and not key.endswith('s') %} {{ key[0] | upper }}{{ key[1:] }}{% endif %}{% endfor %}
{%- for value in f.parameters.properties.values() %} {{ value.default | default(0) | int + 1 }}{% endfor %}
{{- f.parameters.properties | items | list | length }}
{{- ', '.join(f.parameters.properties) }}
{%- endfor %}
{{ '%x' if n is defined else 'no n' }} {{ '7' | int * 2 }} {{ 'x' | int(-1) }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 7 / 2 }} {{ '-' * 5 }}"""

# Calls as Python; parts of content; a loop over a copy with indices.
TEMPLATES["llama-4"] = r"""{{- bos_token }}
{%- if messages and messages[0]['role'] == 'system' %}
    {%- if messages[0]['content'] is string %}
        {%- set lead = messages[0]['content'] | trim %}
    {%- else %}
        {%- set lead = messages[0]['content'] | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('') %}
    {%- endif %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set lead = none %}
{%- endif %}
{%- if lead is not none %}{{- "<|header_start|>system<|header_end|>\n\n" ~ lead ~ "<|eot|>" }}{%- endif %}
{%- for message in messages %}
    {%- if message.role in ('tool', 'ipython') %}
        {{- "<|header_start|>ipython<|header_end|>\n\n" }}
        {%- if message.content is string %}
            {{- { "output": message.content } | tojson }}
        {%- else %}
            {%- for content in message['content'] %}
                {%- if content['type'] == 'text' %}
                    {{- { "output": content['text'] } | tojson }}
                {%- endif %}
            {%- endfor %}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- else %}
        {{- '<|header_start|>' + message['role'] + '<|header_end|>\n\n' }}
        {%- if message['content'] is string %}
            {{- message['content'] }}
        {%- elif message['content'] %}
            {%- for content in message['content'] %}
                {%- if content['type'] == 'image' %}
                    {{- '<|image|>' }}
                {%- elif content['type'] == 'text' %}
                    {{- content['text'] | trim }}
                {%- endif %}
            {%- endfor %}
        {%- endif %}
        {%- if 'tool_calls' in message and message.tool_calls | length > 0 %}
            {{- '<|python_start|>[' }}
            {%- for call in message.tool_calls %}
                {{- call.function.name + '(' }}
                {%- if call.function.arguments is mapping %}
                {%- for key in call.function.arguments %}
                    {{- key + '=' ~ call.function.arguments[key] | tojson }}{{ ', ' if not loop.last }}
                {%- endfor %}
                {%- endif %}
                {{- ')' }}{{- ', ' if loop.nextitem is defined }}
            {%- endfor %}
            {{- ']<|python_end|>' }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|header_start|>assistant<|header_end|>\n\n' }}
{%- endif %}"""
