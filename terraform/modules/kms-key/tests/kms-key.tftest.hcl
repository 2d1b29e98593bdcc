# Nothing is looked up in an account: the credentials are made up.
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
}

override_data {
  target = data.aws_caller_identity.current
  values = { account_id = "123456789012" }
}

run "rotated_and_for_this_account_only" {
  command = plan

  variables {
    name                = "canopy-logs"
    description         = "Logs"
    services            = ["cloudwatch.amazonaws.com"]
    encrypts_log_groups = true
    encrypts_trails     = true
  }

  assert {
    condition     = aws_kms_key.this.enable_key_rotation
    error_message = "the key is not rotated"
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(data.aws_iam_policy_document.key.json).Statement :
      can(statement.Condition) if can(statement.Principal.Service)
    ])
    error_message = "a service may use the key for other accounts, too"
  }
  assert {
    condition     = length(jsondecode(data.aws_iam_policy_document.key.json).Statement) == 4
    error_message = "one statement for IAM and one per kind of service"
  }
}

run "services_are_principals" {
  command = plan
  variables {
    name        = "canopy"
    description = "x"
    services    = ["cloudwatch"]
  }
  expect_failures = [var.services]
}
