# A REST API, because only those stream a function's answer; OPTIONS too goes to the handler, which knows the origins.

locals {
  routes = {
    "POST chat/completions"    = { method = "POST", resource = aws_api_gateway_resource.completions.id }
    "OPTIONS chat/completions" = { method = "OPTIONS", resource = aws_api_gateway_resource.completions.id }
  }
}

resource "aws_api_gateway_rest_api" "this" {
  name                     = var.name
  description              = "OpenAI-compatible chat completions"
  minimum_compression_size = -1 # compressing would hold streamed events back

  endpoint_configuration {
    types = ["REGIONAL"] # edge endpoints end a stream that is silent for 30 s, regional ones after 5 min
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_api_gateway_resource" "v1" {
  rest_api_id = aws_api_gateway_rest_api.this.id
  parent_id   = aws_api_gateway_rest_api.this.root_resource_id
  path_part   = "v1"
}

resource "aws_api_gateway_resource" "chat" {
  rest_api_id = aws_api_gateway_rest_api.this.id
  parent_id   = aws_api_gateway_resource.v1.id
  path_part   = "chat"
}

resource "aws_api_gateway_resource" "completions" {
  rest_api_id = aws_api_gateway_rest_api.this.id
  parent_id   = aws_api_gateway_resource.chat.id
  path_part   = "completions"
}

resource "aws_api_gateway_method" "this" {
  #checkov:skip=CKV_AWS_59:the handler checks bearer keys itself: OpenAI clients send no x-api-key and sign nothing
  #checkov:skip=CKV2_AWS_53:the handler validates, and its errors name the field as OpenAI's do
  #checkov:skip=CKV2_AWS_70:as CKV_AWS_59
  for_each      = local.routes
  rest_api_id   = aws_api_gateway_rest_api.this.id
  resource_id   = each.value.resource
  http_method   = each.value.method
  authorization = "NONE"
}

resource "aws_api_gateway_integration" "this" {
  for_each                = local.routes
  rest_api_id             = aws_api_gateway_rest_api.this.id
  resource_id             = each.value.resource
  http_method             = aws_api_gateway_method.this[each.key].http_method
  type                    = "AWS_PROXY"
  integration_http_method = "POST"
  uri                     = var.function.stream_invoke_arn
  response_transfer_mode  = "STREAM"
  timeout_milliseconds    = var.timeout_s * 1000
}

resource "aws_lambda_permission" "this" {
  for_each      = local.routes
  statement_id  = replace(title(each.key), "/[^A-Za-z]/", "")
  action        = "lambda:InvokeFunction"
  function_name = var.function.name
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${aws_api_gateway_rest_api.this.execution_arn}/*/${each.value.method}/v1/chat/completions"
}
