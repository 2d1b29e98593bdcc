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

variables {
  environment        = "prod"
  owner              = "search-team"
  region             = "eu-central-1"
  zones              = ["eu-central-1a", "eu-central-1b", "eu-central-1c"]
  admin_role_arns    = ["arn:aws:iam::123456789012:role/platform"]
  monthly_budget_usd = 20000
}

run "everything_is_tagged" {
  command = plan
  assert {
    condition     = local.tags.Project == "canopy" && local.tags.Stack == "large" && local.tags.Owner == "search-team"
    error_message = "costs cannot be told apart"
  }
}

run "routers_have_no_role" {
  command = plan
  assert {
    condition     = toset(keys(module.reader)) == toset(["verifier", "drafter"])
    error_message = "only who loads weights may read them"
  }
}

run "a_name_that_buckets_refuse" {
  command = plan
  variables { name = "-" }
  expect_failures = [var.name]
}
