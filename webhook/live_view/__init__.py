"""The live state of the cluster for users and programs, as a page and as JSON.

Start with `data` (`/v1/gangs` and `/v1/topology`), `queues` (`/v1/queues`), `history` (`/v1/history`) and
`gang_stories` (`/v1/story`). `page` returns the page, which its script draws, or renders tables from this
data. The templates and the style sheet of both are beside it.
"""
