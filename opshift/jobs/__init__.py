"""One file or many, from path to path: rewrite, prove, write, and the exit code that it stands for."""
