#include "sandbox/python_programs.hpp"

namespace muster::sandbox {
namespace {

// Values as JSON, in both programs: what is neither JSON's nor in here becomes a reference, or is refused.
const char* const values = R"py(
import json, os, sys

def encode(value, refer):
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -2**63 <= value < 2**63 else {"int": hex(value)}
    if isinstance(value, float):
        return value
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, dict):
        return {"dict": [[encode(key, refer), encode(item, refer)] for key, item in value.items()]}
    if isinstance(value, list):
        return [encode(item, refer) for item in value]
    for kind in (tuple, set, frozenset, range):
        if isinstance(value, kind):
            items = [value.start, value.stop, value.step] if kind is range else value
            return {kind.__name__: [encode(item, refer) for item in items]}
    return {"reference": refer(value)}

def decode(value, resolve):
    if isinstance(value, list):
        return [decode(item, resolve) for item in value]
    if not isinstance(value, dict):
        return value
    (kind, content), = value.items()
    if kind == "int":
        return int(content, 16)
    if kind == "complex":
        return complex(*content)
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "dict":
        return {decode(key, resolve): decode(item, resolve) for key, item in content}
    if kind == "reference":
        return resolve(content)
    items = [decode(item, resolve) for item in content]
    return range(*items) if kind == "range" else {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](items)
)py";

const char* const candidate = R"py(
requests, replies = os.fdopen(3, "rb"), os.fdopen(os.dup(3), "wb")
sys.path[:] = [folder for folder in sys.path if folder]
defined, kept = {"__name__": "candidate"}, []

def refer(value):
    kept.append(value)
    return len(kept) - 1

def resolve(reference):
    if isinstance(reference, int):
        return kept[reference]
    if reference not in defined:
        raise NameError("the program defines no " + reference)
    return defined[reference]

def answer(request):
    target = resolve(request["target"])
    if request["do"] == "call":
        keywords = {name: decode(value, resolve) for name, value in request["keywords"].items()}
        return target(*decode(request["arguments"], resolve), **keywords)
    if request["do"] == "attribute":
        return getattr(target, request["name"])
    return list(target)

def reply(work):
    try:
        line = {"value": encode(work(), refer)}
    except BaseException as error:
        line = {"error": [type(error).__name__, str(error)[:1000]]}
    replies.write(json.dumps(line).encode() + b"\n")
    replies.flush()

reply(lambda: exec(compile(sys.stdin.read(), "program", "exec"), defined))
for line in requests:
    reply(lambda: answer(json.loads(line)))
)py";

const char* const tests = R"py(
import ast, builtins, importlib

verdict = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what tests print is no verdict
sys.path[:] = [folder for folder in sys.path if folder]
longest_line = 1 << 24

def say(**facts):
    verdict.write(json.dumps(facts) + "\n")
    verdict.flush()

class Gone(BaseException):
    """The program has ended, or what it says cannot be read."""

class Fault(BaseException):
    """These tests cannot be run here, whatever the program does."""

class Channel:
    def __init__(self):
        self.requests, self.replies = os.fdopen(3, "wb"), os.fdopen(os.dup(3), "rb")

    def ask(self, **request):
        try:
            self.requests.write(json.dumps(request).encode() + b"\n")
            self.requests.flush()
        except OSError:
            raise Gone("it ended before its tests did") from None
        return self.answer()

    def answer(self):
        line = self.replies.readline(longest_line)
        if not line:
            raise Gone("it ended before its tests did")
        try:
            reply = json.loads(line)
            if "error" not in reply:
                return decode(reply["value"], Remote)
            name, message = map(str, reply["error"])
        except Exception:
            raise Gone("it wrote to the descriptor of its answers") from None
        kind = getattr(builtins, name, None)
        known = isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, AssertionError)
        try:
            error = kind(message) if known else Exception(name + ": " + message)
        except TypeError:
            error = Exception(name + ": " + message)
        error.of_the_program = True
        raise error

class Remote:
    """What lives in the program's process: it can be called, asked for attributes and gone through, never compared."""
    __slots__ = ("_reference",)

    def __init__(self, reference):
        if not isinstance(reference, (int, str)):
            raise TypeError
        self._reference = reference

    def __call__(self, *arguments, **keywords):
        return channel.ask(do="call", target=self._reference, arguments=[encode(value, referred) for value in arguments],
                           keywords={name: encode(value, referred) for name, value in keywords.items()})

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return channel.ask(do="attribute", target=self._reference, name=name)

    def __iter__(self):
        items = channel.ask(do="items", target=self._reference)
        if type(items) is not list:
            raise Gone("it wrote to the descriptor of its answers")
        return iter(items)

    def incomparable(self, *_):
        raise TypeError("the program gave an object where a test needs a plain value")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __hash__ = __str__ = __repr__ = incomparable

def referred(value):
    if type(value) is Remote:
        return value._reference
    raise Fault(f"a test hands over {type(value).__name__}, which cannot leave its process")

class Score:
    """Counts the tests; what an assert statement becomes in Counted."""
    passed = failed = memory = 0
    first = None
    Exception = Exception

    def succeed(self):
        self.passed += 1

    def fail(self, error):
        if isinstance(error, ImportError) and not hasattr(error, "of_the_program"):
            raise Fault(f"the tests import what is not there: {error}")
        self.failed += 1
        kind = "memory" if isinstance(error, MemoryError) else "wrong" if type(error) is AssertionError else "error"
        self.first = self.first or (kind, f"{type(error).__name__}: {error}"[:1000] if kind == "error" else "")

class Counted(ast.NodeTransformer):
    total = 0

    def visit_Assert(self, node):
        if isinstance(node.test, ast.Constant):
            return node
        self.total += 1
        trial, = ast.parse("try: pass\nexcept __score__.Exception as __error__: __score__.fail(__error__)\n"
                           "else: __score__.succeed()").body
        trial.body = [node]
        return trial

def names_that_only_the_program_has(tree, known):
    nodes = list(ast.walk(tree))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {(node.asname or node.name).split(".")[0] for node in nodes if isinstance(node, ast.alias)}
    bound |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return used - bound - set(known) - set(dir(builtins))

def run_given(text, space):
    """What the program was asked to continue: its helpers and imports are the tests' own, not the program's."""
    for ending in ("", "\n    pass"):  # it may stop where a function's body begins
        try:
            code = compile(text + ending, "given", "exec")
        except SyntaxError as error:
            failure = error
        else:
            try:
                return exec(code, space)
            except Exception as error:
                failure = error
    raise Fault(f"what the program continues cannot be run: {type(failure).__name__}: {failure}")

def judge(task):
    global channel
    space, score, counted = {"__name__": "tests", "__score__": Score()}, None, Counted()
    score, entry = space["__score__"], task["entry_point"]
    try:
        tree = ast.parse(task["tests"], "tests")
        has_check = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body)
        if has_check and not entry:
            raise Fault("the tests define check(), and no entry point is named for it")
        run_given(task["given"], space)
        for name in names_that_only_the_program_has(tree, space):
            is_module = name in sys.stdlib_module_names
            space[name] = importlib.import_module(name) if is_module else Remote(name)
        if entry:
            space[entry] = space["candidate"] = Remote(entry)
        code = compile(ast.fix_missing_locations(counted.visit(tree)), "tests", "exec")
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Fault(f"the tests are not Python: {error}")
    channel = Channel()
    say(ready=True)
    gone = ""
    try:
        channel.answer()
        exec(code, space)
        if has_check and entry:
            space["check"](space[entry])
        unreached = counted.total > 0 and score.passed + score.failed == 0
        if unreached:
            score.fail(AssertionError())
        elif counted.total == 0:
            score.succeed()  # tests without an assert statement are one
    except Gone as error:
        gone, unreached = str(error), True
    except Fault:
        raise
    except BaseException as error:
        score.fail(error)
        unreached = True
    total = score.passed + score.failed
    if unreached:
        total = max(total + bool(gone), counted.total, 1)
    failure, detail = ("ended", gone) if gone else score.first or (None, "")
    say(passed=min(score.passed, total - 1) if failure else score.passed, total=total, failure=failure, detail=detail)

try:
    judge(json.load(sys.stdin))
except Fault as fault:
    say(fault=str(fault))
os._exit(0)
)py";

}  // namespace

std::string candidate_side() { return std::string(values) + candidate; }
std::string tests_side() { return std::string(values) + tests; }

}  // namespace muster::sandbox
