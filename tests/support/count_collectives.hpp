// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

// Counts the MPI calls of a program by MPI's profiling interface. Include it in one source.

#include <knapformer/comm/mpi.hpp>

namespace knapformer::test {
inline int collective_calls = 0;
inline int test_calls = 0;
}  // namespace knapformer::test

extern "C" {

int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* receive,
                  int receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
  ++knapformer::test::collective_calls;
  return PMPI_Allgather(send, send_count, send_type, receive, receive_count, receive_type, comm);
}
int MPI_Iallgather(const void* send, int send_count, MPI_Datatype send_type, void* receive,
                   int receive_count, MPI_Datatype receive_type, MPI_Comm comm,
                   MPI_Request* request) {
  ++knapformer::test::collective_calls;
  return PMPI_Iallgather(send, send_count, send_type, receive, receive_count, receive_type, comm,
                         request);
}
int MPI_Allgatherv(const void* send, int send_count, MPI_Datatype send_type, void* receive,
                   const int counts[], const int offsets[], MPI_Datatype receive_type,
                   MPI_Comm comm) {
  ++knapformer::test::collective_calls;
  return PMPI_Allgatherv(send, send_count, send_type, receive, counts, offsets, receive_type, comm);
}
int MPI_Iallgatherv(const void* send, int send_count, MPI_Datatype send_type, void* receive,
                    const int counts[], const int offsets[], MPI_Datatype receive_type,
                    MPI_Comm comm, MPI_Request* request) {
  ++knapformer::test::collective_calls;
  return PMPI_Iallgatherv(send, send_count, send_type, receive, counts, offsets, receive_type, comm,
                          request);
}
int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  ++knapformer::test::collective_calls;
  return PMPI_Allreduce(send, receive, count, type, op, comm);
}
int MPI_Iallreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request* request) {
  ++knapformer::test::collective_calls;
  return PMPI_Iallreduce(send, receive, count, type, op, comm, request);
}
int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  ++knapformer::test::collective_calls;
  return PMPI_Bcast(buffer, count, type, root, comm);
}
int MPI_Ibcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request* request) {
  ++knapformer::test::collective_calls;
  return PMPI_Ibcast(buffer, count, type, root, comm, request);
}
int MPI_Barrier(MPI_Comm comm) {
  ++knapformer::test::collective_calls;
  return PMPI_Barrier(comm);
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  ++knapformer::test::collective_calls;
  return PMPI_Ibarrier(comm, request);
}
int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  ++knapformer::test::test_calls;
  return PMPI_Test(request, done, status);
}

}  // extern "C"
