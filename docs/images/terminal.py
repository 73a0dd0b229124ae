#!/usr/bin/env python3
"""Makes a picture (SVG) of what a command printed: terminal.py 'COMMAND' < OUTPUT > PICTURE.svg"""
import sys
from html import escape

lines = [f"$ {sys.argv[1]}", *sys.stdin.read().rstrip().split("\n")]
width, height = max(map(len, lines)) * 8 + 32, len(lines) * 19 + 28
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"\n'
      '     font-family="\'DejaVu Sans Mono\', Menlo, Consolas, monospace" font-size="13" fill="#dbe3ee">\n'
      f"  <title>{escape(lines[0])}</title>\n"
      f'  <rect width="{width}" height="{height}" rx="8" fill="#161b22"/>')
for number, line in enumerate(lines):
    if line:
        look = ' fill="#7ee0a3"' if number == 0 else ' fill="#ff9c8f"' if "  worse  " in line else ""
        print(f'  <text x="16" y="{30 + 19 * number}" xml:space="preserve" textLength="{len(line) * 8}"{look}>{escape(line)}</text>')
print("</svg>")
