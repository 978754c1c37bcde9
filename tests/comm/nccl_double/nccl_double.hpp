// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// What tests tell the test double of NCCL, and what it tells them. All of it is about this rank.
///
/// The double carries messages over MPI_COMM_WORLD with tags from 1000 on. It moves bytes when it
/// is asked how things stand, and never touches the caller's memory otherwise.
namespace knapformer::nccl_double {

/// Misuse seen so far: calls out of order, sends and receives that do not match, groups too large.
const std::vector<std::string>& misuse();

int calls();               ///< that can fail, so far
int live_communicators();  ///< neither destroyed nor aborted
int connections();         ///< peers that live communicators have sent to or received from
int largest_group();       ///< operations in it
int groups();              ///< that were launched

/// The n-th of the calls to come fails; 1 is the next.
void fail_call(int n);
/// The next query of a communicator's state finds an error that came up in the background.
void fail_in_background();
/// Operations launched from now on never begin, as on a GPU that hangs.
void stall();
/// All ranks claim to have the same device.
void share_devices();
/// As in the beginning. Communicators stay.
void reset();

// For the host's nccl_stream.hpp.
std::uint64_t device_number();
using IsDone = std::function<bool()>;
IsDone everything_launched();  ///< whether all that has been launched until now is done

}  // namespace knapformer::nccl_double
