"""The pages that show all results: a front page with the score, and a page per paper. They need no network.

`papers`     what the papers are called, and where they are to be had
`standard`   estimates of all claims on one scale, for pictures that can be compared
`contents`   what stands on the pages
`write`      the pages as files
"""

from asyncfl.experiments.site.write import write_site

__all__ = ["write_site"]
