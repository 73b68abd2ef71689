#!/usr/bin/env python3
"""A browser without a window: opens a URL and follows its redirects, as the authorization servers of the conformance
suite of MCP, which approve each login at once, and the listener of `cachalot mcp login` need."""

import sys
import urllib.error
import urllib.request

try:
    urllib.request.urlopen(sys.argv[1], timeout=20).read()
except urllib.error.HTTPError as error:
    # The listener answers an unusable response with an error page; the client reports it.
    error.read()
