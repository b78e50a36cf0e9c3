"""Result files -> one report: HTML (one file, asks nothing of any network) and Markdown, from the same document.

sources reads files, sections/ makes blocks of them, document holds the blocks, html and markdown write them.
"""
