"""Reads the fenced blocks of Markdown pages, and the marks before them that say which commands are not run, and why."""
import dataclasses
import re
import subprocess

COMMANDS = ("sh", "bash", "console")
# Kinds of blocks that are read elsewhere (tests/deploy/check), or hold nothing that can be run.
OTHERS = ("promql", "yaml", "text", "mermaid")
KINDS = (*COMMANDS, *OTHERS, "toml", "json", "")

MARK = re.compile(r"^\s*<!--\s*(not run|run shorter)\s*(?:\(([^)]*)\))?\s*(?::\s*(.*?))?\s*-->\s*$")
FENCE = re.compile(r"^(\s*)(`{3,})\s*(\S*)\s*$")


class PageError(Exception):
    """Something on a page that a reader of it would trip over. Its text names page and line."""


@dataclasses.dataclass
class Mark:
    """<!-- not run: WHY -->, <!-- not run (TEXT; TEXT): WHY -->: the block, or those of its commands that have a TEXT.
    <!-- run shorter (TEXT = OTHER; ...): WHY -->: its commands have OTHER in place of TEXT when they are run here."""

    where: str
    kind: str
    words: list
    why: str


@dataclasses.dataclass
class Block:
    where: str  # PAGE:LINE of its fence.
    kind: str
    text: str
    marks: list
    follows: bool  # Nothing but blank lines stands between the block before and this one.

    def commands(self):
        return split(self.text) if self.kind in COMMANDS else []

    def first(self):
        return self.text.strip().split("\n")[0]


@dataclasses.dataclass
class Command:
    """A command as it stands on its page, and what a mark makes of it."""

    where: str
    text: str
    run: str  # What is run: mostly the same.
    why_not: str = ""


def blocks_of(name, text):
    """Returns the blocks of a page. Raises PageError where a mark stands before no block."""
    found, marks, opened = [], [], None
    follows = False
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{name}:{number}"
        fence = FENCE.match(line)
        if opened:
            if fence and not fence[3] and len(fence[2]) >= len(opened[2]):
                indent = opened[1]
                body = "".join((row[len(indent):] if row.startswith(indent) else row) + "\n" for row in lines)
                found.append(Block(opened_at, opened[3], body, marks, follows))
                opened, marks, follows = None, [], True
            else:
                lines.append(line)
        elif fence:
            opened, opened_at, lines = fence, where, []
            if fence[3] not in KINDS:
                raise PageError(f"{where}: no block is of the kind {fence[3]}; known are {', '.join(KINDS[:-1])}, and none for the output of a command")
        elif mark := MARK.match(line):
            if not mark[3]:
                raise PageError(f"{where}: the mark does not say why: <!-- {mark[1]}: REASON -->")
            marks.append(Mark(where, mark[1], [word.strip() for word in mark[2].split(";")] if mark[2] else [], mark[3]))
        elif line.strip():
            if marks:
                raise PageError(f"{marks[-1].where}: the mark stands before no block: put it directly before one")
            follows = False
    if opened:
        raise PageError(f"{opened_at}: the block does not end")
    if marks:
        raise PageError(f"{marks[-1].where}: the mark stands before no block")
    return found


def spans_of(name, text):
    """Yields place and text of each command of weir's programs that stands within a sentence."""
    outside = []
    fence = None
    for line in text.split("\n"):
        found = FENCE.match(line)
        outside.append("" if fence or found else line)
        if found:
            fence = None if fence else found
    whole = "\n".join(outside)
    for span in re.finditer(r"(?<!`)`((?:weir|weir-lab)\s[^`]*)`(?!`)", whole):
        yield f"{name}:{whole.count(chr(10), 0, span.start()) + 1}", " ".join(span[1].split())


def is_whole(text):
    """Returns whether bash takes a text for whole commands. bash only warns of a here-document without its end."""
    read = subprocess.run(["bash", "-n"], input=text + "\n", text=True, capture_output=True)
    return read.returncode == 0 and "here-document" not in read.stderr


def split(text):
    """Splits a script into commands: a command is as few lines as bash takes for a whole one."""
    found, lines = [], []
    for line in text.split("\n"):
        if not lines and (not line.strip() or line.lstrip().startswith("#")):
            continue
        lines.append(line)
        whole = "\n".join(lines)
        if not line.endswith("\\") and is_whole(whole):
            found.append(whole)
            lines = []
    if lines:
        raise PageError("bash finds no end of: " + "\n".join(lines))
    return found


def marked(block):
    """Returns the commands of a block with what its marks make of them. Raises PageError for a mark that means nothing."""
    if block.kind not in COMMANDS:
        if block.marks:
            raise PageError(f"{block.marks[0].where}: the mark stands before a block without commands")
        return []
    try:
        commands = [Command(block.where, text, text) for text in block.commands()]
    except PageError as error:
        raise PageError(f"{block.where}: {error}") from None
    if not commands:
        raise PageError(f"{block.where}: a block of commands without a command")
    for mark in block.marks:
        if mark.kind == "run shorter":
            changes = [word.partition(" = ")[::2] for word in mark.words]
            if not changes:
                raise PageError(f"{mark.where}: the mark does not say what is shorter: <!-- run shorter (TEXT = OTHER): REASON -->")
            for old, new in changes:
                if not new or not any(old in command.run for command in commands):
                    raise PageError(f"{mark.where}: no command of the block has {old}")
                for command in commands:
                    command.run = command.run.replace(old, new)
            continue
        for word in mark.words or [""]:
            meant = [command for command in commands if word in command.text]
            if not meant:
                raise PageError(f"{mark.where}: no command of the block has {word}")
            for command in meant:
                command.why_not = mark.why
        if mark.words and all(command.why_not for command in commands):
            raise PageError(f"{mark.where}: the mark names every command: leave out the brackets")
    return commands


def shape(text):
    """Returns text with its figures masked, so that two outputs of a command are equal if they say the same."""
    text = re.sub(r"(?<![\w.])\d[\d,.]*(?:e-?\d+)? ?(ms|min|us|s|h|d)\b", "TIME", text)
    text = re.sub(r"(?<![A-Za-z_\d-])\d[\d,.]*(?:e-?\d+)?", "N", text)
    return [" ".join(line.split()) for line in text.strip().split("\n")]
