"""What the wrapper starts."""

from chat_lambda.runtime import run

run()
