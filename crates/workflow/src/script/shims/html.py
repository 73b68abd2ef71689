def __html_module__():
    def escape(s, quote=True):
        s = s.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')
        if quote:
            s = s.replace('"', '&quot;').replace("'", '&#x27;')
        return s
    return __make_module__('html', {'escape': escape})

__html__ = __html_module__()
