! SPDX-FileCopyrightText: The KnapFormer authors
! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

! Balances the tokens of one step over the ranks that it is started on:
!     mpirun -n 4 ./balance_fortran
program balance
  use, intrinsic :: iso_fortran_env, only : int64, real32
  use mpi_f08
  use knapformer
  implicit none

  integer, parameter :: width = 64
  type(knapformer_communicator) :: group
  type(knapformer_balancer) :: balancer
  type(knapformer_routing) :: routing
  type(knapformer_layout) :: layout
  type(knapformer_plan) :: plan
  integer(int64) :: lengths(4)
  real(real32), allocatable :: tokens(:, :), moved(:, :)
  integer :: rank

  call MPI_Init()
  call knapformer_initialize()
  call group%create(MPI_COMM_WORLD%MPI_VAL)  ! with `use mpi`: group%create(MPI_COMM_WORLD)
  rank = group%rank()

  ! Nothing is split; an example is too small to be worth a message.
  call balancer%create(group, topology='elastic1', d_model=int(width, int64), gamma=1d0, &
      heads=8_int64, latency=0d0)
  lengths = 100 * (rank + 1)  ! later ranks have longer ones
  call balancer%prepare(lengths, routing)
  call routing%layout(layout)

  allocate(tokens(width, layout%home_rows), moved(width, layout%routed_rows))
  tokens = rank
  call routing%move(knapformer_route, tokens, moved)
  moved = 2 * moved  ! stands for the work on tokens, wherever they are
  call routing%move(knapformer_reverse_route, moved, tokens)  ! every token is home again
  if (any(tokens /= 2 * rank)) call group%fail('wrong result')

  call routing%plan(plan)
  print '(a, i0, a, i0, a, i0, 2(a, f5.3))', 'rank ', rank, ': ', layout%home_rows, &
      ' tokens loaded, ', layout%routed_rows, ' computed; largest over mean work ', &
      plan%max_over_mean, ', before ', plan%max_over_mean_before

  call routing%destroy()
  call balancer%destroy()
  call group%destroy()
  call knapformer_finalize()
  call MPI_Finalize()
end program
