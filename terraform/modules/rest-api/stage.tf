resource "aws_api_gateway_deployment" "this" {
  rest_api_id = aws_api_gateway_rest_api.this.id
  # A stage serves a snapshot: take a new one when something in it changed.
  triggers = {
    content = sha256(jsonencode([local.routes, aws_api_gateway_method.this, aws_api_gateway_integration.this, aws_api_gateway_gateway_response.this]))
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_api_gateway_stage" "this" {
  #checkov:skip=CKV2_AWS_29:keys, throttling and the function's concurrency bound what a stranger can cost; to add a web ACL, associate it with the output stage_arn
  #checkov:skip=CKV_AWS_120:answers are cached by the handler, which knows which requests are deterministic
  #checkov:skip=CKV2_AWS_51:clients hold keys, not certificates
  #checkov:skip=CKV2_AWS_4:the settings of all methods are below; execution logs would hold prompts and answers
  rest_api_id          = aws_api_gateway_rest_api.this.id
  deployment_id        = aws_api_gateway_deployment.this.id
  stage_name           = "live"
  xray_tracing_enabled = true

  access_log_settings {
    destination_arn = var.log_group.arn
    format = jsonencode({
      request_id = "$context.requestId"
      time       = "$context.requestTime"
      ip         = "$context.identity.sourceIp"
      method     = "$context.httpMethod"
      path       = "$context.path"
      status     = "$context.status"
      latency_ms = "$context.responseLatency"
      bytes      = "$context.responseLength"
      error      = "$context.error.message"
    })
  }

  depends_on = [aws_api_gateway_account.this]
}

resource "aws_api_gateway_method_settings" "all" {
  #checkov:skip=CKV_AWS_225:as CKV_AWS_120 of the stage
  #checkov:skip=CKV_AWS_308:as CKV_AWS_120 of the stage: nothing is cached here
  rest_api_id = aws_api_gateway_rest_api.this.id
  stage_name  = aws_api_gateway_stage.this.stage_name
  method_path = "*/*"

  settings {
    metrics_enabled        = true
    logging_level          = "ERROR"
    data_trace_enabled     = false # prompts and answers are never logged
    throttling_rate_limit  = var.throttle.rate
    throttling_burst_limit = var.throttle.burst
  }
}

# What the gateway answers by itself (throttled, no such route) must be readable for a web page, too.
resource "aws_api_gateway_gateway_response" "this" {
  for_each      = toset(["DEFAULT_4XX", "DEFAULT_5XX"])
  rest_api_id   = aws_api_gateway_rest_api.this.id
  response_type = each.key
  response_parameters = length(var.allowed_origins) == 1 ? {
    "gatewayresponse.header.Access-Control-Allow-Origin" = "'${one(var.allowed_origins)}'"
  } : {}
  response_templates = {
    "application/json" = jsonencode({ error = {
      message = "$context.error.message", type = each.key == "DEFAULT_4XX" ? "invalid_request_error" : "server_error"
      param   = null, code = "$context.error.responseType"
    } })
  }
}

data "aws_partition" "current" {}

data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["apigateway.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "logs" {
  count              = var.account_logging_role ? 1 : 0
  name               = "${var.name}-gateway-logs"
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

resource "aws_iam_role_policy_attachment" "logs" {
  count = var.account_logging_role ? 1 : 0
  role  = aws_iam_role.logs[0].name
  # API Gateway accepts no narrower policy: it checks for these rights when the role is set.
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs"
}

resource "aws_api_gateway_account" "this" {
  count               = var.account_logging_role ? 1 : 0
  cloudwatch_role_arn = aws_iam_role.logs[0].arn
  depends_on          = [aws_iam_role_policy_attachment.logs]
}
