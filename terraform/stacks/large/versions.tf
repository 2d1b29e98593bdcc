terraform {
  required_version = ">= 1.11"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.30"
    }
    random = {
      source  = "hashicorp/random"
      version = "~> 3.7"
    }
  }

  # Where the state lies is given to `terraform init -backend-config=...`; see ../../README.md.
  backend "s3" {}
}

provider "aws" {
  region = var.region

  default_tags {
    tags = local.tags
  }
}

data "aws_caller_identity" "current" {}

locals {
  account_id = data.aws_caller_identity.current.account_id
  # On everything, so that costs can be told apart by any of them.
  tags = {
    Project     = var.name
    Stack       = "large"
    Environment = var.environment
    Owner       = var.owner
    ManagedBy   = "terraform"
  }
}
