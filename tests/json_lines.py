"""Programs that answer each line of JSON with another one."""

import json
import subprocess


class JsonLines:
    def __init__(self, words: list[str]):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def ask(self, **request):
        self.tell(**request)
        line = self.process.stdout.readline()
        assert line, f"{self.process.args} ended with {self.process.wait()}"
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


class ModelProgram(JsonLines):
    """A program that computes with a model. Loading the program takes longer than a small model: it is kept for the next one."""

    idle: dict[str, list[subprocess.Popen]] = {}

    def __init__(self, program, *words):
        self.kept = self.idle.setdefault(str(program), [])
        if self.kept:
            self.process = self.kept.pop()
        else:
            super().__init__([str(program)])
        self.tell(open=[str(word) for word in words])

    def __exit__(self, problem, *_):
        if problem:
            super().__exit__()
        else:
            self.kept.append(self.process)
