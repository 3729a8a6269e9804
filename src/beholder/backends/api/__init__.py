"""Models behind an HTTP interface: OpenAI's chat completions (and servers that speak it) and Gemini.

options.py    what a user sets: keys, budget, rate, retries       secret.py    keys that nothing prints, redaction
server.py     which server, without what its URL may hide         budget.py    calls and money
pace.py       rate limit and pauses that a server asked for       client.py    requests, retries, faults
faults.py     what an answer other than 200 means                 reply.py     what a dialect reads out of an answer
openai.py, gemini.py   the two dialects                           pictures.py  how a picture is sent
models.py     the capabilities AnswerScorer and Judge             engine.py    names, finding and loading
"""
