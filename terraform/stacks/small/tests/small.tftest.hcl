# Nothing is looked up in an account; what modules give each other is made up.
mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_region" {
    defaults = { region = "eu-central-1" }
  }
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }
  mock_data "aws_ssm_parameter" {
    defaults = { value = "ami-0123456789abcdef0" }
  }
}

mock_provider "archive" {}

override_module {
  target = module.function
  outputs = {
    name              = "canopy-chat"
    stream_invoke_arn = "arn:aws:apigateway:eu-central-1:lambda:path/2021-11-15/functions/arn:aws:lambda:eu-central-1:123456789012:function:canopy-chat/response-streaming-invocations"
    api_keys_secret   = "canopy-chat/api-keys"
  }
}

variables {
  environment        = "dev"
  owner              = "search-team"
  region             = "eu-central-1"
  model_id           = "amazon.nova-micro-v1:0"
  monthly_budget_usd = 20
}

run "everything_is_tagged" {
  command = plan
  assert {
    condition     = alltrue([for tag in ["Project", "Stack", "Environment", "Owner"] : length(local.tags[tag]) > 0])
    error_message = "costs cannot be told apart"
  }
  assert {
    condition     = local.tags.Project == "canopy" && local.tags.Stack == "small"
    error_message = "the budget counts by another tag"
  }
}

run "a_name_that_buckets_refuse" {
  command = plan
  variables { name = "Canopy_1" }
  expect_failures = [var.name]
}

run "an_environment_of_its_own" {
  command = plan
  variables { environment = "test" }
  expect_failures = [var.environment]
}

run "nobody_pays" {
  command = plan
  variables { owner = " " }
  expect_failures = [var.owner]
}

run "no_region" {
  command = plan
  variables { region = "Frankfurt" }
  expect_failures = [var.region]
}

run "an_origin_with_a_path" {
  command = plan
  variables { allowed_origins = ["https://chat.example.com/app"] }
  expect_failures = [var.allowed_origins]
}
