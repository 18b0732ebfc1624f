"""What the C that Cython makes of engine/ may call while it holds a mutex: a small flow analysis.

It knows as much C as Cython writes. A function's body becomes a graph of steps, which is walked with the number of
mutexes held; into functions of the engine the walk goes with that number, and comes back with what they leave. So it
sees what a reader of one function does not: that something is released three functions below a `lock`.

It knows how many mutexes are held, not which, and forgets conditions: what a branch has found out, the next may
contradict. So it may find too much, never too little. A call of a method is one of all methods of that name; one by a
pointer is taken to leave mutexes as they were, and is a finding under one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# That of the registry and a core's. A fork takes those of all cores: as good as two.
MOST_HELD = 2

_FUNCTION = re.compile(r"^(?!typedef)\w[^;{}=\n]*?\b(__pyx_\w+)\([^;{}\n]*\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NOISE = re.compile(
    r"""/\*\ "[^"\n]+":(?P<line>\d+)\n.*?\*/ | /\*.*?\*/        # the first of them stands before each line of ours
    | ^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*$
    | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+'""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_TOKEN = re.compile(r"@\d+|[A-Za-z_]\w*|->|\d[\w.]*|\S")
_OURS = re.compile(r"__pyx_f_7pysched_7_engine_\w+")
_METHOD = re.compile(r"^ *__pyx_vtable_\w+\.(?:__pyx_base\.)*(\w+) = .*?(__pyx_f_\w+);$", re.MULTILINE)
_MUTEX = re.compile(r"pysched_mutex_(?:un)?lock\(")
_KEYWORDS = {"break", "case", "continue", "default", "do", "else", "for", "goto", "if", "return", "switch", "while"}
_ENDS = {*_KEYWORDS, "{", "}", "__PYX_ERR"}  # of an expression, which a macro may have ended already
_NOT_CALLED = {"for", "if", "likely", "return", "sizeof", "switch", "unlikely", "while"}
_TAKES_REFERENCE = {"Py_INCREF", "__Pyx_INCREF"}
_GIVES_REFERENCE = {"Py_DECREF", "Py_XDECREF", "__Pyx_DECREF", "__Pyx_XDECREF"}
_MAY_BE_NULL = {"Py_XDECREF", "__Pyx_XDECREF"}
_SETS = {"__Pyx_DECREF_SET"}


class Finding(NamedTuple):
    """Something that must not be under a mutex."""

    function: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.function} (line {self.line}): {self.what}"


class _Call(NamedTuple):
    name: str  # "*": by a pointer; "->m": by a method table or a member
    argument: str  # the first, without casts
    line: int


class _Assignment(NamedTuple):
    variable: str
    is_null: bool


@dataclass(eq=False)
class _Step:
    acts: list[_Call | _Assignment] = field(default_factory=list)
    next: list[_Step] = field(default_factory=list)
    failure: _Step | None = None  # where a call that raised goes
    fails: bool = False  # what comes is a function's way out with an exception
    leaves: bool = False


class _State(NamedTuple):
    held: int
    raised: bool | None = None  # whether the call before did; None: it was seen to, or there was none
    failed: bool = False


class _Known(NamedTuple):
    """What is so on all ways to a step."""

    null: frozenset[str] = frozenset()  # variables
    shared: frozenset[str] = frozenset()  # references that were taken since the mutex was: not the last to their object

    def both(self, other: _Known) -> _Known:
        return _Known(self.null & other.null, self.shared & other.shared)

    def assigned(self, variable: str, is_null: bool) -> _Known:
        null = self.null | {variable} if is_null else self.null - {variable}
        return _Known(null, self.shared - {variable})


class _Builder:
    """Makes a graph of a function's body."""

    def __init__(self, body: str) -> None:
        def blank(match: re.Match[str]) -> str:
            return f" @{match['line']} " if match["line"] else " "

        self._tokens = _TOKEN.findall(_NOISE.sub(blank, body))
        self._at = 0
        self._line = 0
        self._labels: dict[str, _Step] = {}
        self._breaks: list[_Step] = []
        self._continues: list[_Step] = []
        self._switches: list[_Step] = []
        self.entry = _Step()
        self._here = self.entry
        while self._peek() is not None:
            self._statement()
        self._here.leaves = True

    def _peek(self) -> str | None:
        while self._at < len(self._tokens) and self._tokens[self._at][0] == "@":
            self._line = int(self._tokens[self._at][1:])
            self._at += 1
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, expected: str | None = None) -> str:
        token = self._peek()
        assert token is not None, "the end of a function comes too early"
        assert expected in (None, token), f"{expected} was expected near line {self._line}, not {token}"
        self._at += 1
        return token

    def _group(self) -> list[str]:
        """The tokens of a group in brackets that opens here, brackets included."""
        tokens, depth = [], 0
        while True:
            tokens.append(self._take())
            depth += (tokens[-1] in "([{") - (tokens[-1] in ")]}")
            if not depth:
                return tokens

    def _go_on(self, step: _Step) -> None:
        self._here.next.append(step)
        self._here = step

    def _do(self, tokens: list[str]) -> None:
        step = _Step(acts=list(_acts(tokens, self._line)))
        if step.acts:
            self._go_on(step)

    def _jump(self, target: _Step) -> None:
        self._here.next.append(target)
        self._here = _Step()  # which nothing leads to, unless it gets a label

    def _label(self, name: str) -> _Step:
        return self._labels.setdefault(name, _Step(fails=name == "__pyx_L1_error"))

    def _statement(self) -> None:
        token = self._take()
        if token == "{":
            while self._peek() != "}":
                self._statement()
            self._take("}")
        elif token == "if":
            self._if()
        elif token in ("for", "while"):
            self._loop()
        elif token == "do":
            self._do_while()
        elif token == "switch":
            self._switch()
        elif token in ("case", "default"):
            while self._take() != ":":
                pass
            self._go_on(_Step())
            self._switches[-1].next.append(self._here)
        elif token == "goto":
            self._jump(self._label(self._take()))
            self._take(";")
        elif token == "__PYX_ERR":
            self._jump(self._label(self._group()[-2]))
        elif token in ("break", "continue"):
            self._jump((self._breaks if token == "break" else self._continues)[-1])
            self._take(";")
        elif token == "return":
            self._do(self._expression())
            self._here.leaves = True
            self._here = _Step()
        elif self._peek() == ":" and token.isidentifier():
            self._take(":")
            self._go_on(self._label(token))
        else:
            self._at -= 1
            self._do(self._expression())

    def _expression(self) -> list[str]:
        """All up to a semicolon, or to where none is needed."""
        tokens: list[str] = []
        while True:
            token = self._peek()
            if token in ("(", "[") or (token == "{" and tokens[-1:] == ["="]):
                tokens += self._group()
            elif token is None or token in _ENDS or self._take() == ";":
                return tokens
            else:
                tokens.append(token)

    def _if(self) -> None:
        self._do(self._group())
        branch = _Step()
        self._go_on(branch)
        end = _Step()
        if self._peek() == "__PYX_ERR":
            self._take()
            branch.failure = self._label(self._group()[-2])
        else:
            self._go_on(_Step())
            self._statement()
            self._here.next.append(end)
        self._here = branch
        if self._peek() == "else":
            self._take()
            self._go_on(_Step())
            self._statement()
        self._go_on(end)

    def _body(self, again: _Step, end: _Step) -> None:
        self._breaks.append(end)
        self._continues.append(again)
        self._statement()
        self._breaks.pop()
        self._continues.pop()
        self._here.next.append(again)
        self._here = end

    def _loop(self) -> None:
        start = _Step()
        self._go_on(start)
        head = self._group()
        self._do(head)
        end = _Step()
        if head not in (["(", "1", ")"], ["(", ";", ";", ")"]):
            self._here.next.append(end)
        self._go_on(_Step())
        self._body(start, end)

    def _do_while(self) -> None:
        start, condition, end = _Step(), _Step(), _Step()
        self._go_on(start)
        self._body(condition, end)
        self._here = condition
        self._take("while")
        self._do(self._group())
        self._here.next.append(start)
        self._go_on(end)

    def _switch(self) -> None:
        self._do(self._group())
        end = _Step()
        self._here.next.append(end)
        self._switches.append(self._here)
        self._here = _Step()
        self._breaks.append(end)
        self._statement()
        self._breaks.pop()
        self._switches.pop()
        self._go_on(end)


def _acts(tokens: list[str], line: int) -> Iterator[_Call | _Assignment]:
    """The calls in an expression, those in arguments before the call that they are for; then its assignment."""
    opened: list[tuple[str, int]] = []
    last_group: list[str] = []
    for place, token in enumerate(tokens):
        if token == "(":
            before = tokens[place - 1] if place else ""
            name = ""
            if before == ")" and not _is_type(last_group):
                name = "*"
            elif before.isidentifier() and before not in _NOT_CALLED:
                owner = tokens[place - 2] if place > 1 else ""
                name = f"->{before}" if owner in ("->", ".") else "*" if before.startswith("__pyx_v_") else before
            opened.append((name, place))
        elif token == ")":
            name, start = opened.pop()
            last_group = tokens[start + 1 : place]
            if name:
                yield _Call(name, _first(last_group), line)
    for place, token in enumerate(tokens):
        if token == "&" and tokens[place - 1] in ("(", ",") and tokens[place + 1].isidentifier():
            yield _Assignment(tokens[place + 1], is_null=False)
    assigned = re.fullmatch(r"(?:[\w* ]+ )?(\w+) = (?!=)(.*)", " ".join(tokens))
    if assigned:
        yield _Assignment(assigned[1], is_null=assigned[2] in ("0", "NULL"))


def _first(tokens: list[str]) -> str:
    """The first of a call's arguments, without casts and brackets round it."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token in "([{") - (token in ")]}")
        if token == "," and not depth:
            tokens = tokens[:place]
            break
    text = " ".join(tokens)
    while True:
        plain = re.sub(r"^\( (?:\( )?\w+ \*+ \)(?: \))? ?", "", text)
        bare = re.fullmatch(r"\( ([^()]*) \)", plain)
        plain = bare[1] if bare else plain
        if plain == text:
            return text
        text = plain


def _is_type(tokens: list[str]) -> bool:
    """Whether what stood in parentheses is a cast's type, or a macro's or a keyword's argument."""
    return all(token.isidentifier() or token == "*" for token in tokens) and tokens[0] != "*"


class Program:
    """The functions of all modules, by their names in C."""

    def __init__(self, sources: Iterable[str]) -> None:
        texts = list(sources)
        self._bodies = {name: body for text in texts for name, body in _FUNCTION.findall(text)}
        self._methods: dict[str, set[str]] = {}
        for text in texts:
            for method, function in _METHOD.findall(text):
                self._methods.setdefault(f"->{method}", set()).add(function)
        self._graphs: dict[str, _Step] = {}
        self._exits: dict[tuple[str, int], set[tuple[int, bool]]] = {}
        self._touching = self._all_that_lead_to_a_mutex()
        self._walked: set[tuple[str, int]] = set()
        self._giving_back: set[str] = set()
        self._found: set[Finding] = set()

    def _all_that_lead_to_a_mutex(self) -> set[str]:
        callers: dict[str, list[str]] = {}
        for name, body in self._bodies.items():
            for called in set(_OURS.findall(body)):
                callers.setdefault(called, []).append(name)
        pending = [name for name, body in self._bodies.items() if _MUTEX.search(body)]
        found = set()
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending += callers.get(name, [])
        return found

    def calls_under_a_mutex(self) -> set[Finding]:
        """All calls there of what is not the engine's own."""
        before, exits = -1, 0
        while exits > before:  # of recursive functions not all is known at once
            self._walked.clear()
            self._found.clear()
            for name in sorted(self._touching):
                self._leaves(name, 0)
            before, exits = exits, sum(map(len, self._exits.values()))
        return self._found

    def missed(self) -> set[str]:
        """The functions that ask for a mutex, or give back one that they have not taken, and were not met with one."""
        asking = {name for name, body in self._bodies.items() if "PYSCHED_ASSERT_HELD(" in body}
        return (asking | self._giving_back) - {name for name, held in self._walked if held}

    def _leaves(self, name: str, held: int) -> set[tuple[int, bool]]:
        """What a function that is entered with so many mutexes leaves: how many, and whether it raises."""
        key = name, held
        if key not in self._walked:
            self._walked.add(key)
            self._exits.setdefault(key, set()).update(self._walk(name, held))
        return self._exits[key]

    def _walk(self, name: str, held: int) -> set[tuple[int, bool]]:
        if name not in self._graphs:
            self._graphs[name] = _Builder(self._bodies[name]).entry
        pending = [(self._graphs[name], _State(held), _Known())]
        seen: dict[tuple[_Step, _State], _Known] = {}
        exits: set[tuple[int, bool]] = set()
        found: dict[tuple[_Step, _State], set[Finding]] = {}
        while pending:
            step, state, known = pending.pop()
            here = step, state
            if here in seen:
                known = known.both(seen[here])
                if known == seen[here]:
                    continue
            seen[here] = known
            found[here] = set()
            states = {state._replace(failed=state.failed or step.fails)}
            for act in step.acts:
                if isinstance(act, _Call):
                    states = {after for before in states for after in self._call(name, act, before, known, found[here])}
                known = self._learn(known, act)
            for after in states:
                if step.leaves:
                    exits.add((after.held, after.failed))
                if step.failure is not None:
                    if after.raised is not False:
                        pending.append((step.failure, after._replace(raised=None), known))
                    if after.raised:
                        continue
                    after = after._replace(raised=None)
                pending += [(following, after, known) for following in step.next]
        self._found.update(*found.values())
        return exits

    @staticmethod
    def _learn(known: _Known, act: _Call | _Assignment) -> _Known:
        if isinstance(act, _Assignment):
            return known.assigned(act.variable, act.is_null)
        if act.name in _TAKES_REFERENCE:
            return known._replace(shared=known.shared | {act.argument})
        if act.name in _GIVES_REFERENCE:
            return known._replace(shared=known.shared - {act.argument})
        if act.name in _SETS:
            return known.assigned(act.argument, is_null=False)
        if _MUTEX.match(f"{act.name}("):
            return known._replace(shared=frozenset())
        return known

    def _call(self, caller: str, call: _Call, state: _State, known: _Known, found: set[Finding]) -> set[_State]:
        held = state.held
        if call.name == "pysched_mutex_lock":
            return {state._replace(held=min(held + 1, MOST_HELD), raised=None)}
        if call.name == "pysched_mutex_unlock":
            if not held:
                self._giving_back.add(caller)
                return set()
            return {state._replace(held=held - 1, raised=None)}
        if call.name == "PYSCHED_ASSERT_HELD":
            return {state} if held else set()
        ours = self._methods.get(call.name, {call.name} & self._bodies.keys())
        if ours:
            return {_State(after, raised, state.failed) for name in ours for after, raised in self._leaves(name, held)}
        if call.name in _GIVES_REFERENCE and (
            call.argument in known.shared or (call.argument in known.null and call.name in _MAY_BE_NULL)
        ):
            return {state}
        if held and call.name not in _TAKES_REFERENCE:
            found.add(Finding(caller, call.line, call.name))
        return {state}
