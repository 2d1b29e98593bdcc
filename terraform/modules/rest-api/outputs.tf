output "base_url" {
  description = "Base URL of OpenAI clients."
  value       = "${aws_api_gateway_stage.this.invoke_url}/v1"
}

output "stage_arn" {
  description = "ARN of the stage, to associate a web ACL with."
  value       = aws_api_gateway_stage.this.arn
}

output "dimensions" {
  description = "Dimensions of the API's CloudWatch metrics (namespace AWS/ApiGateway)."
  value       = { ApiName = aws_api_gateway_rest_api.this.name, Stage = aws_api_gateway_stage.this.stage_name }
}
