"""The kubectl plugin as krew installs it: an archive of wheel, locked requirements and launcher, and a manifest."""
