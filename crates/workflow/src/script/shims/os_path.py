def __os_path_module__():
    def text_of(path):
        if not isinstance(path, str):
            path = str(path)
        return path
    def join(path, *paths):
        path = text_of(path)
        for part in paths:
            part = text_of(part)
            if part.startswith('/'):
                path = part
            elif not path or path.endswith('/'):
                path += part
            else:
                path += '/' + part
        return path
    def split(path):
        path = text_of(path)
        at = path.rfind('/') + 1
        head, tail = path[:at], path[at:]
        if head and head != '/' * len(head):
            head = head.rstrip('/')
        return head, tail
    def basename(path):
        path = text_of(path)
        return path[path.rfind('/') + 1:]
    def dirname(path):
        return split(path)[0]
    def splitext(path):
        path = text_of(path)
        slash = path.rfind('/')
        dot = path.rfind('.')
        if dot > slash:
            at = slash + 1
            while at < dot:
                if path[at] != '.':
                    return path[:dot], path[dot:]
                at += 1
        return path, ''
    def isabs(path):
        return text_of(path).startswith('/')
    def normpath(path):
        path = text_of(path)
        if not path:
            return '.'
        slashes = '/' if path.startswith('/') else ''
        if path.startswith('//') and not path.startswith('///'):
            slashes = '//'
        parts = []
        for part in path.split('/'):
            if not part or part == '.':
                continue
            if part != '..' or (not slashes and not parts) or (parts and parts[-1] == '..'):
                parts.append(part)
            elif parts:
                parts.pop()
        return slashes + '/'.join(parts) or '.'
    def commonprefix(m):
        m = list(m)
        if not m:
            return ''
        low, high = min(m), max(m)
        for i in range(len(low)):
            if low[i] != high[i:i + 1]:
                return low[:i]
        return low
    return __make_module__('posixpath', {
        'join': join, 'split': split, 'basename': basename, 'dirname': dirname, 'splitext': splitext, 'isabs': isabs,
        'normpath': normpath, 'commonprefix': commonprefix, 'sep': '/', 'pardir': '..', 'curdir': '.', 'extsep': '.', 'pathsep': ':',
    })

__os_path__ = __os_path_module__()
