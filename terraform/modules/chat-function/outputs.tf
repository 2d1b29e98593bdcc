output "name" {
  description = "Name of the function."
  value       = aws_lambda_function.this.function_name
}

output "stream_invoke_arn" {
  description = "What a gateway invokes to get an answer as it is written."
  value       = aws_lambda_function.this.response_streaming_invoke_arn
}

output "api_keys_secret" {
  description = "Secret with the API's keys, one per line."
  value       = module.api_keys.name
}
