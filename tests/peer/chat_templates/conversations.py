"""Conversations that templates are tried with: every shape that real ones have."""

SYSTEM = {"role": "system", "content": "You are terse. Answer in one line."}
USER = {"role": "user", "content": "What is the capital of France?"}
ASSISTANT = {"role": "assistant", "content": "Paris."}
MORE = {"role": "user", "content": "And of Italy?\n\n  Please.  "}
UNICODE = {"role": "user", "content": "Grüße, 世界! 👩‍👩‍👧 «été» — \u00a0 שלום\t<|im_end|> {{ x }} 'q' \"d\" \\n </s>"}
THOUGHT = {"role": "assistant", "content": "<think>\nIt is Rome.\n</think>\n\nRome."}
REASONED = {"role": "assistant", "content": "Rome.", "reasoning_content": "Italy's capital is Rome.\n"}
EMPTY = {"role": "assistant", "content": ""}
PARTS = {"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "text", "text": "two parts"}]}
IMAGE = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is this?"}]}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 3}}}
    ],
}
CALL_WITH_TEXT = {**CALL, "content": "Let me look."}
CALL_NULL = {**CALL, "content": None}
CALL_AS_TEXT = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'}}],
}
TWO_CALLS = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Bern"}}},
        {"id": "call00002", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 2.5, "deep": {"x": [1, None, True]}}}},
    ],
}
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": '{"temperature": 21.5, "sky": "klar"}'}
SECOND_RESULT = {"role": "tool", "name": "add", "tool_call_id": "call00002", "content": "3.5"}
STRUCTURED_RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": {"temperature": 21.5, "wind": None}}

CONVERSATIONS = {
    "one question": [USER],
    "system and question": [SYSTEM, USER],
    "system alone": [SYSTEM],
    "two turns": [USER, ASSISTANT, MORE],
    "two turns with system": [SYSTEM, USER, ASSISTANT, MORE],
    "ends with the assistant": [SYSTEM, USER, ASSISTANT],
    "five turns": [SYSTEM, USER, ASSISTANT, MORE, THOUGHT, USER, REASONED],
    "unicode": [UNICODE],
    "unicode everywhere": [{**UNICODE, "role": "system"}, UNICODE, {**UNICODE, "role": "assistant"}, UNICODE],
    "thought in the text": [USER, THOUGHT, MORE],
    "thought as last": [USER, THOUGHT],
    "reasoning": [USER, REASONED],
    "reasoning and more": [USER, REASONED, MORE, REASONED],
    "empty answer": [USER, EMPTY, MORE],
    "text in parts": [PARTS],
    "an image": [IMAGE, ASSISTANT],
    "assistant first": [ASSISTANT, USER],
    "two questions": [USER, MORE],
    "system in the middle": [USER, SYSTEM, USER],
    "unknown role": [USER, {"role": "oracle", "content": "Ω"}],
    "no content": [USER, {"role": "assistant"}, MORE],
    "content is null": [USER, {"role": "assistant", "content": None}],
    "a call": [USER, CALL],
    "a call and its result": [SYSTEM, USER, CALL, RESULT],
    "a call, its result, an answer": [USER, CALL, RESULT, ASSISTANT, MORE],
    "a call with text": [USER, CALL_WITH_TEXT, RESULT, ASSISTANT],
    "a call with null": [USER, CALL_NULL, RESULT],
    "a call with text arguments": [USER, CALL_AS_TEXT, RESULT],
    "two calls": [SYSTEM, USER, TWO_CALLS, RESULT, SECOND_RESULT, ASSISTANT],
    "a call with reasoning": [USER, {**CALL, "reasoning_content": "I need the weather."}, RESULT, REASONED],
    "a structured result": [USER, CALL, STRUCTURED_RESULT],
    "developer": [{"role": "developer", "content": "Be kind."}, USER],
}

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city — today's & tomorrow's.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Name, e.g. \"Zürich\""},
                "days": {"type": "integer", "minimum": 1, "maximum": 18446744073709551615, "default": 1},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "nullable": True},
            },
            "required": ["city"],
        },
        "return": {"type": "object", "description": "What is measured."},
    },
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.\nTwo lines.",
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"type": "number", "description": "first"},
                "b": {"type": ["number", "null"], "description": "second"},
                "deep": {
                    "type": "object",
                    "properties": {"x": {"type": "array", "items": {"type": "integer"}}, "y": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
                    "required": ["x"],
                },
                "list": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "boolean"}}}},
            },
            "required": ["a", "b"],
        },
    },
}
NOTHING = {"type": "function", "function": {"name": "nothing", "description": "", "parameters": {"type": "object", "properties": {}}}}

TOOLS = {"none": None, "one": [WEATHER], "three": [WEATHER, ADD, NOTHING], "empty list": []}

DOCUMENTS = [{"title": "Berlin", "text": "The capital of Germany."}, {"title": "Ω", "text": "Zwei\nZeilen"}]

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

SETTINGS = [
    {},
    {"add_generation_prompt": True},
    {"add_generation_prompt": True, "enable_thinking": False},
    {"add_generation_prompt": True, "enable_thinking": True, "preserve_thinking": True, "keep_past_thinking": True},
    {"add_generation_prompt": True, "reasoning_effort": "high", "model_identity": "You are a test.", "builtin_tools": ["browser", "python"]},
    {"documents": DOCUMENTS, "add_generation_prompt": True, "date_string": "01 Jan 2025", "tools_in_user_message": False},
    {"builtin_tools": ["wolfram_alpha", "code_interpreter"], "enable_thinking": False},
]


def variables_of_every_kind():
    """(what, variables) for every conversation with every set of tools, the settings taken in turn."""
    for i, (name, messages) in enumerate(CONVERSATIONS.items()):
        for j, (tools_name, tools) in enumerate(TOOLS.items()):
            for number in sorted({(i + j) % len(SETTINGS), 1}):
                given = {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": False}
                yield f"{name}, tools: {tools_name}, setting {number}", {**given, **TOKENS, **SETTINGS[number]}
