"""The live state of the cluster for users and programs, as a page and as JSON.

Start with `data` (`/v1/gangs` and `/v1/topology`), `queues` (`/v1/queues`), `history` (`/v1/history`) and
`gang_stories` (`/v1/story`). `page` returns the live page, which a script in the browser draws, or the same data as
tables for browsers without scripts. The folder also has the templates and the style sheet of both.
"""
