"""Writes what was seen as Markdown tables, and remembers whether all of it was as it must be."""


class Report:
    def __init__(self, root):
        """`root` is a folder whose name the tables must not show."""
        self.sections, self.failures, self.root = [], [], f"{root}/"

    def say(self, text):
        print(text, flush=True)

    def fail(self, where, what):
        self.failures.append(f"{where}: {what}")
        self.say(f"FAILED  {where}: {what}")

    def table(self, title, head, rows):
        widths = range(len(head))
        lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
        lines += [f"| {' | '.join(str(row[at]) if at < len(row) else '' for at in widths)} |" for row in rows]
        self.sections.append(f"**{title}**\n\n" + "\n".join(lines))

    def whole(self):
        failed = "\n".join(failure if len(failure) < 240 else f"{failure[:240]}..." for failure in self.failures)
        return "\n\n".join([*self.sections, f"**Failed**\n\n```\n{failed}\n```" if failed else "Nothing failed."]).replace(self.root, "") + "\n"


def milliseconds(seconds):
    return "-" if seconds is None else f"{seconds * 1e3:.2f} ms"


def tokens(count):
    return "-" if count is None else f"{count:g}"
