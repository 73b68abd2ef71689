def __textwrap_module__():
    def dedent(text):
        lines = text.split('\n')
        lines = ['' if not line.strip(' \t') else line for line in lines]
        margin = None
        for line in lines:
            if not line:
                continue
            indent = line[:len(line) - len(line.lstrip(' \t'))]
            if margin is None or indent.startswith(margin):
                margin = indent if margin is None else margin
            elif margin.startswith(indent):
                margin = indent
            else:
                size = 0
                while size < len(margin) and size < len(indent) and margin[size] == indent[size]:
                    size += 1
                margin = margin[:size]
        if margin:
            lines = [line[len(margin):] if line else line for line in lines]
        return '\n'.join(lines)
    def indent(text, prefix, predicate=None):
        out = []
        at = 0
        while at < len(text):
            end = text.find('\n', at)
            end = len(text) if end < 0 else end + 1
            line = text[at:end]
            at = end
            out.append(prefix + line if (predicate(line) if predicate else line.strip()) else line)
        return ''.join(out)
    return __make_module__('textwrap', {'dedent': dedent, 'indent': indent})

__textwrap__ = __textwrap_module__()
