"""Judges that write: a language model reads a trace, says in words what is wrong with it, and a verdict is read off.

`critic` puts questions to any policy and turns replies into judgements; each family is one small file.
"""
