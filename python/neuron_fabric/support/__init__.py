"""Helpers without a subject of their own.

    files       files that are written completely or not at all
    units       numbers with units, for people
    tables      aligned columns of text
    provenance  the hardware, the versions and the commit that figures come from
"""
