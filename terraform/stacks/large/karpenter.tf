module "interruptions" {
  source = "../../modules/interruption-queue"
  name   = "${var.name}-karpenter"
}

# `python -m deploy watch-interruptions` drains what Ray runs on a machine; reading Karpenter's queue it would take the
# messages away from Karpenter.
module "drain_notices" {
  source = "../../modules/interruption-queue"
  name   = "${var.name}-drain"
}

module "karpenter" {
  source     = "../../modules/karpenter"
  cluster    = local.cluster
  region     = var.region
  account_id = local.account_id
  queue_arn  = module.interruptions.arn
}
