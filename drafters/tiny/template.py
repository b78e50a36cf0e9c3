"""The chat template: Kimi-K2.5's turn format, written for this model.

Tools are declared first, as JSON with only the name, description and parameters of each (servers add keys of their own,
which would be news to so small a model). Each message is `<|im_ROLE|>name<|im_middle|>content<|im_end|>`. An assistant
turn always opens with a think block, empty where there was no reasoning; the generation prompt leaves the block open
unless `thinking` is false. A tool call's id is the one it came with, else `functions.NAME:N`, N counted over the
conversation.
"""

CHAT_TEMPLATE = """\
{%- macro text_of(content) -%}
  {%- if content is string -%}
    {{- content -}}
  {%- elif content -%}
    {%- for part in content -%}
      {%- if part is string -%}
        {{- part -}}
      {%- elif part.type in ['image', 'image_url', 'input_image'] -%}
        <|media_begin|>image<|media_content|><|media_pad|><|media_end|>
      {%- elif part.type in ['text', 'input_text'] -%}
        {{- part.text -}}
      {%- else -%}
        {{- raise_exception('content part type ' ~ part.type ~ ' is not supported: send text or image_url') -}}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro -%}
{%- set counter = namespace(calls=0) -%}
{%- if tools -%}
  <|im_system|>tool_declare<|im_middle|>[
  {%- for tool in tools -%}
    {%- set function = tool.function or tool -%}
    {"type":"function","function":{"name":{{- function.name | tojson -}}
    {%- if function.description -%},"description":{{- function.description | tojson -}}{%- endif -%}
    {%- if function.parameters -%}
      ,"parameters":{{- function.parameters | tojson(separators=(',', ':')) -}}
    {%- endif -%}
    }}{%- if not loop.last -%},{%- endif -%}
  {%- endfor -%}
  ]<|im_end|>
{%- endif -%}
{%- for message in messages -%}
  {%- if message.role in ['system', 'developer'] -%}
    <|im_system|>system<|im_middle|>{{- text_of(message.content) -}}<|im_end|>
  {%- elif message.role == 'user' -%}
    <|im_user|>user<|im_middle|>{{- text_of(message.content) -}}<|im_end|>
  {%- elif message.role == 'assistant' -%}
    <|im_assistant|>assistant<|im_middle|><think>{{- message.reasoning_content or '' -}}</think>
    {{- text_of(message.content) -}}
    {%- if message.tool_calls -%}
      <|tool_calls_section_begin|>
      {%- for call in message.tool_calls -%}
        {%- set arguments = call.function.arguments -%}
        <|tool_call_begin|>
        {{- call.id or ('functions.' ~ call.function.name ~ ':' ~ counter.calls) -}}
        <|tool_call_argument_begin|>
        {{- arguments if arguments is string else arguments | tojson -}}
        <|tool_call_end|>
        {%- set counter.calls = counter.calls + 1 -%}
      {%- endfor -%}
      <|tool_calls_section_end|>
    {%- endif -%}
    <|im_end|>
  {%- elif message.role == 'tool' -%}
    <|im_system|>tool<|im_middle|>## Return of {{ message.tool_call_id }}
{{ text_of(message.content) -}}<|im_end|>
  {%- else -%}
    {{- raise_exception('role ' ~ message.role ~ ' is unknown: use system, developer, user, assistant or tool') -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  <|im_assistant|>assistant<|im_middle|><think>
  {%- if thinking is defined and thinking is false -%}</think>{%- endif -%}
{%- endif -%}
"""
