"""The kubectl plugin as krew installs it: an archive of wheel, lock and launcher, and its manifest."""
