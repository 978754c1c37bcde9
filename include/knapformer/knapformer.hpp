// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

// Everything a program needs that balances its own work. The transformer, the traces and the
// training loop have headers of their own: knapformer/model, knapformer/trace, knapformer/train.

#include <knapformer/comm/communicator.hpp>
#include <knapformer/plan/planner.hpp>
#include <knapformer/route/balancer.hpp>
