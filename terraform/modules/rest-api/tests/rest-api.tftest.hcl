# Nothing is looked up in an account: the credentials are made up.
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
}

variables {
  name      = "canopy"
  function  = { name = "canopy-chat", stream_invoke_arn = "arn:aws:apigateway:eu-central-1:lambda:path/2021-11-15/functions/arn:aws:lambda:eu-central-1:123456789012:function:canopy-chat/response-streaming-invocations" }
  timeout_s = 300
  log_group = { name = "/canopy/aggregated", arn = "arn:aws:logs:eu-central-1:123456789012:log-group:/canopy/aggregated" }
}

run "streams_and_logs_no_content" {
  command = plan
  assert {
    condition     = alltrue([for i in aws_api_gateway_integration.this : i.response_transfer_mode == "STREAM" && i.timeout_milliseconds == 300000])
    error_message = "answers are buffered, or cut after 29 s"
  }
  assert {
    condition     = aws_api_gateway_method_settings.all.settings[0].data_trace_enabled == false
    error_message = "prompts would be logged"
  }
  assert {
    condition     = aws_api_gateway_method_settings.all.settings[0].throttling_rate_limit == 5 && aws_api_gateway_method_settings.all.settings[0].throttling_burst_limit == 10
    error_message = "requests are not throttled"
  }
  assert {
    condition     = alltrue([for field in ["request_id", "status", "latency_ms"] : can(jsondecode(aws_api_gateway_stage.this.access_log_settings[0].format)[field])])
    error_message = "the access log misses a field"
  }
  assert {
    condition     = toset(keys(aws_lambda_permission.this)) == toset(["POST chat/completions", "OPTIONS chat/completions"])
    error_message = "browsers ask with OPTIONS first"
  }
}
