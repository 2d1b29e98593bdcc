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
  name        = "canopy-chat"
  package     = { path = "handler.zip", sha256 = "x" }
  region      = "eu-central-1"
  account_id  = "123456789012"
  model_id    = "amazon.nova-micro-v1:0"
  cache_table = { name = "canopy-responses", arn = "arn:aws:dynamodb:eu-central-1:123456789012:table/canopy-responses" }
  kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
  log_group   = { name = "/canopy/detailed", arn = "arn:aws:logs:eu-central-1:123456789012:log-group:/canopy/detailed" }
}

run "one_model_in_one_region" {
  command = plan
  assert {
    condition     = jsondecode(data.aws_iam_policy_document.model.json).Statement[0].Resource == "arn:aws:bedrock:eu-central-1::foundation-model/amazon.nova-micro-v1:0"
    error_message = "the function may call other models, too"
  }
  assert {
    condition     = aws_lambda_function.this.reserved_concurrent_executions == 10 && aws_lambda_function.this.kms_key_arn == var.kms_key_arn
    error_message = "a burst has no limit, or the settings no key"
  }
}

run "an_inference_profile" {
  command = plan
  variables { model_id = "eu.anthropic.claude-haiku-4-5-20251001-v1:0" }
  assert {
    condition = toset(jsondecode(data.aws_iam_policy_document.model.json).Statement[0].Resource) == toset([
      "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-haiku-4-5-20251001-v1:0",
      "arn:aws:bedrock:*::foundation-model/anthropic.claude-haiku-4-5-20251001-v1:0",
    ])
    error_message = "a profile needs itself and the model that it forwards to"
  }
}

run "not_a_model_id" {
  command = plan
  variables { model_id = "claude" }
  expect_failures = [var.model_id]
}

run "longer_than_lambda_can" {
  command = plan
  variables { timeout_s = 1000 }
  expect_failures = [var.timeout_s]
}
