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
  repositories = ["canopy/server"]
  kms_key_arn  = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
}

run "scanned_and_immutable" {
  command = plan
  assert {
    condition     = aws_ecr_repository.this["canopy/server"].image_scanning_configuration[0].scan_on_push
    error_message = "images are not scanned"
  }
  assert {
    condition     = aws_ecr_repository.this["canopy/server"].image_tag_mutability == "IMMUTABLE"
    error_message = "a tag may change its image"
  }
  assert {
    condition     = aws_ecr_repository.this["canopy/server"].encryption_configuration[0].kms_key == var.kms_key_arn
    error_message = "images are not encrypted with the key"
  }
  assert {
    condition     = [for rule in jsondecode(aws_ecr_lifecycle_policy.this["canopy/server"].policy).rules : rule.selection.countNumber] == [7, 20]
    error_message = "old images stay"
  }
}

run "a_roll_back_needs_an_image" {
  command = plan
  variables { kept_images = 1 }
  expect_failures = [var.kept_images]
}
