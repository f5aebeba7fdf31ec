"""The live picture for people and programs: the picture comes in, out go JSON and a page.

Start with `data` (`/v1/gangs` and `/v1/topology`) and `gang_stories` (`/v1/story`); `page` makes the page from the same
data, with `page.html` and `page.css`.
"""
