"""Laws that a projection may go by, one a file: the file is called as the law is, and its object is ``LAW``."""
