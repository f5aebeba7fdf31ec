"""The live state of the cluster for users and programs, as a page and as JSON.

Start with `data` (`/v1/gangs` and `/v1/topology`), `queues` (`/v1/queues`), `history` (`/v1/history`) and
`gang_stories` (`/v1/story`). `page` renders the page from this data, with `drawn.html` for its script, or with
`page.html` as tables, and `page.css`.
"""
