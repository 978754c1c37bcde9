! SPDX-FileCopyrightText: The KnapFormer authors
! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

! The Fortran module: everything there and back, and errors that all ranks hear of.
program module_test
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only : error_unit, int8, int64, real32, real64
  use mpi
  use knapformer
  use knapformer_c, only : c_plan_options, c_plan_options_init, c_balancer_options, &
      c_balancer_options_init, c_communicator_options, c_communicator_options_init
  implicit none

  integer :: rank, ranks, ierror
  integer :: failures = 0

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call knapformer_initialize()
  call test_layout_of_structs()
  call test_movements()
  call test_speeds()
  call test_usable_after_errors()
  call test_failures()
  call test_handles()
  call knapformer_finalize()
  call MPI_Allreduce(MPI_IN_PLACE, failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (rank == 0) print '(i0, a)', failures, ' failures'
  call MPI_Finalize(ierror)
  if (failures > 0) stop 1

contains

  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(*), intent(in) :: what
    if (condition) return
    write (error_unit, '(a, i0, 4a)') 'rank ', rank, ': failed: ', what, '; the last message: ', &
        knapformer_error_message()
    failures = failures + 1
  end subroutine

  subroutine check_error(status, expected, text)
    integer, intent(in) :: status, expected
    character(*), intent(in) :: text
    call check(status == expected .and. index(knapformer_error_message(), text) > 0, text)
  end subroutine

  logical function is_last()
    is_last = rank == ranks - 1
  end function

  subroutine make(group, balancer, topology)
    type(knapformer_communicator), intent(inout) :: group
    type(knapformer_balancer), intent(inout) :: balancer
    character(*), intent(in) :: topology
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call group%create(MPI_COMM_WORLD, timeout_seconds=30d0)
    call balancer%create(group, topology=topology, d_model=16_int64, heads=4_int64, latency=0d0, &
        speeds=[real(real64) ::], ranks_per_node=int(ranks, int64))
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
  end subroutine

  ! What Fortran declares is as long as what C fills.
  subroutine test_layout_of_structs()
    type(c_plan_options) :: plan
    type(c_balancer_options) :: balancing
    type(c_communicator_options) :: patience
    call c_plan_options_init(plan)
    call c_balancer_options_init(balancing)
    call c_communicator_options_init(patience)
    call check(plan%struct_size == c_sizeof(plan), 'size of plan options')
    call check(balancing%struct_size == c_sizeof(balancing), 'size of balancer options')
    call check(patience%struct_size == c_sizeof(patience), 'size of communicator options')
    call check(plan%d_model == 3072 .and. plan%heads == 1 .and. plan%budget == -1, 'plan defaults')
    call check(plan%gamma == 0.5d0 .and. plan%constant == 0 .and. plan%balance == 1, 'cost model')
    call check(plan%machine%ranks_per_node == 8 .and. plan%machine%layers == 57 .and. &
        plan%machine%bytes_per_element == 2 .and. plan%machine%speed_count == 0, 'machine')
    call check(plan%machine%flops > plan%machine%bandwidth_within .and. &
        plan%machine%bandwidth_within > plan%machine%bandwidth_between .and. &
        plan%machine%latency < 1, 'speeds of the machine')
    call check(plan%max_tokens_per_rank == huge(1_int64), 'no cap')
    call check(patience%timeout_seconds == 600d0 .and. patience%report_seconds == 60d0, 'patience')
  end subroutine

  subroutine test_movements()
    type(knapformer_communicator) :: group
    type(knapformer_balancer) :: balancer
    type(knapformer_routing) :: routing
    type(knapformer_pending_routing) :: pending
    type(knapformer_request) :: request
    type(knapformer_layout) :: layout
    type(knapformer_plan) :: plan
    integer(int64) :: lengths(ranks - 1)
    real(real32), allocatable, asynchronous :: tokens(:, :), moved(:, :), restored(:, :)
    integer(int8), allocatable, asynchronous :: tags(:), moved_tags(:)
    real(real64), allocatable :: q(:, :, :), heads(:, :), back(:, :, :), own(:, :), copies(:, :)
    integer(int64) :: i
    character(16) :: one_bag

    write (one_bag, '(a, i0, a)') 'g', ranks, 'n1'
    call make(group, balancer, trim(one_bag))
    call check(group%rank() == rank .and. group%size() == ranks, 'rank and size')
    lengths = [(10 * i, i = 1, ranks - 1)]
    if (is_last()) then  ! it alone has sequences, if there is one
      call balancer%start_prepare(lengths, pending)
    else
      call balancer%start_prepare([integer(int64) ::], pending)
    end if
    call pending%wait(routing)
    call routing%layout(layout)
    call routing%plan(plan)
    call check(plan%ranks == ranks .and. plan%sequences == ranks - 1, 'plan')
    call check(all(plan%lengths == lengths) .and. all(plan%homes == ranks - 1), 'sequences')
    call check(sum(plan%tokens_after) == sum(lengths), 'all tokens are planned')
    call check(plan%total_tokens == sum(lengths) .and. plan%moved_tokens <= sum(lengths), 'tokens')
    call check(abs(plan%lower_bound * (1 + plan%lower_bound_gap) - maxval(plan%work_after)) <= &
        1d-9 * plan%lower_bound, 'bound and gap')
    call check(plan%max_over_mean <= plan%max_over_mean_before, 'better than before')
    if (ranks > 1) call check(plan%step_seconds > 0 .and. plan%step_seconds < 1, 'a short step')
    call check(plan%tokens_after(rank + 1) == layout%routed_rows, 'routed rows')
    call check(size(layout%chunks) == count(plan%chunks%rank == rank), 'chunks')
    call check(sum(layout%chunks%chunk%tokens) == layout%routed_rows, 'tokens of chunks')
    call check(sum(layout%problems%length * layout%problems%heads) == layout%head_rows, 'heads')

    allocate(tokens(3, layout%home_rows), moved(3, layout%routed_rows), tags(layout%home_rows))
    allocate(restored(3, layout%home_rows), moved_tags(layout%routed_rows))
    tokens = reshape([(real(i), i = 1, size(tokens))], shape(tokens))
    tags = int(rank, int8)
    call routing%start_move(knapformer_route, request, tokens, moved, tags, moved_tags)
    call request%wait()
    call check(all(moved_tags == ranks - 1), 'tags')
    call routing%move(knapformer_reverse_route, moved, restored)
    call check(all(restored == tokens), 'tokens are home again')

    allocate(q(2, 4, layout%routed_rows), heads(2, layout%head_rows), back(2, 4, layout%routed_rows))
    q = reshape([(real(i, real64), i = 1, size(q))], shape(q))
    call routing%move(knapformer_pre_attention, q, heads)
    call routing%move(knapformer_post_attention, heads, back)
    call check(all(back == q), 'attention and back')

    allocate(own(1, layout%home_sequences), copies(1, size(layout%chunks)))
    own = 1
    call routing%move(knapformer_route_sequences, own, copies)
    call check(all(copies == 1), 'a row a chunk')
    call routing%move(knapformer_route_sequences_adjoint, copies, own)
    if (is_last()) then
      call check(all(own(1, :) == plan%chunk_offsets(2:) - plan%chunk_offsets(:ranks - 1)), 'sums')
    end if
    call routing%destroy()
    call balancer%destroy()
    call group%destroy()
  end subroutine

  subroutine test_speeds()
    type(knapformer_communicator) :: group, alone
    type(knapformer_balancer) :: balancer
    type(knapformer_routing) :: routing
    real(real64) :: speeds(ranks)
    integer :: step
    call group%create(MPI_COMM_WORLD)
    call balancer%create(group, adapt_to_speed=.true., balance=.false., &
        speed_estimate=[(1d0, step = 1, ranks)])
    do step = 1, 6
      call balancer%prepare([100_int64, 100_int64], routing)
      call balancer%observe(routing, merge(2d0, 1d0, rank == 0))
      call routing%destroy()
    end do
    call balancer%get_speeds(speeds)
    call check(all(speeds(2:) > speeds(1)), 'the first rank is slow')
    call group%split(1, alone)
    call check(alone%size() == 1, 'split')
    call alone%destroy()
    call group%barrier()
    call balancer%destroy()
    call group%destroy()
  end subroutine

  subroutine test_usable_after_errors()
    type(knapformer_communicator) :: group
    type(knapformer_balancer) :: balancer, another
    type(knapformer_routing) :: routing
    type(knapformer_plan) :: plan
    integer(int64) :: lengths(2)
    integer :: status
    call make(group, balancer, 'elastic1')
    lengths = 7
    if (is_last()) lengths(2) = -5
    call balancer%prepare(lengths, routing, status=status)
    call check_error(status, knapformer_invalid, 'the length of sequence 1 is -5')
    call balancer%prepare([7_int64, 7_int64], routing, costs=[1_int64], status=status)
    call check_error(status, knapformer_invalid, '1 cost for 2 sequences')
    call another%create(group, topology=trim(merge('g4n8x  ', 'elastic', is_last())), status=status)
    call check_error(status, knapformer_invalid, 'g4n8x')
    call balancer%prepare([7_int64, 7_int64], routing, costs=[3_int64, 4_int64])
    call routing%plan(plan)
    call check(plan%work_before(rank + 1) == 7d0, 'costs')
    call routing%destroy()
    call routing%destroy()
    call balancer%destroy()
    call group%destroy()
  end subroutine

  ! The last rank makes mistake number `which` in moving rows.
  subroutine test_failures()
    character(*), parameter :: expected(7) = [character(40) :: &
        'input 0 has 15 rows', 'to has rows of 12 bytes, from of 16', 'elements of different types', &
        'from is not contiguous', 'give an array to move to', 'is a scalar', '3 heads']
    type(knapformer_communicator) :: group
    type(knapformer_balancer) :: balancer
    type(knapformer_routing) :: routing
    real(real32) :: from(4, 14), to(4, 14), many(4, 15), narrow(3, 14), wide(8, 14), three(2, 3, 14)
    real(real64) :: double(2, 14)
    integer :: which, status
    from = 0; to = 0; many = 0; narrow = 0; wide = 0; three = 0; double = 0
    do which = 1, size(expected)
      call make(group, balancer, 'elastic1')
      call balancer%prepare([7_int64, 7_int64], routing)
      call MPI_Barrier(MPI_COMM_WORLD, ierror)
      status = 0
      if (is_last()) then
        select case (which)
        case (1); call routing%move(knapformer_route, many, to, status=status)
        case (2); call routing%move(knapformer_route, from, narrow, status=status)
        case (3); call routing%move(knapformer_route, from, double, status=status)
        case (4); call routing%move(knapformer_route, wide(1:4, :), to, status=status)
        case (5); call routing%move(knapformer_route, from, to, from2=from, status=status)
        case (6); call routing%move(knapformer_route, from(1, 1), to, status=status)
        case (7); call routing%move(knapformer_pre_attention, three, to, status=status)
        end select
      end if
      if (status == 0) call group%barrier(status)
      call check_error(status, knapformer_failed, trim(expected(which)))
      call routing%destroy()
      call balancer%destroy()
      call group%destroy()
    end do
    call make(group, balancer, 'elastic1')
    if (is_last()) then
      call group%fail('the disk is full', status)
    else
      call group%barrier(status)
    end if
    call check_error(status, knapformer_failed, 'the disk is full')
    call balancer%destroy()
    call group%destroy()
  end subroutine

  ! What was never created, or is destroyed.
  subroutine test_handles()
    type(knapformer_communicator) :: group
    type(knapformer_balancer) :: balancer
    type(knapformer_routing) :: routing
    type(knapformer_request) :: request
    type(knapformer_layout) :: layout
    type(knapformer_plan) :: plan
    real(real32) :: row(1)
    integer :: status
    row = 0
    call group%barrier(status)
    call check_error(status, knapformer_invalid, 'communicator is NULL')
    call balancer%prepare([1_int64], routing, status=status)
    call check_error(status, knapformer_invalid, 'the balancer is NULL')
    call routing%move(knapformer_route, row, row, status=status)
    call check_error(status, knapformer_invalid, 'the routing is NULL')
    call routing%layout(layout, status)
    call check_error(status, knapformer_invalid, 'routing is NULL')
    call routing%plan(plan, status)
    call check_error(status, knapformer_invalid, 'plan is NULL')
    call request%wait(status)
    call check_error(status, knapformer_invalid, 'request is NULL')
    call balancer%create(group, status=status)
    call check_error(status, knapformer_invalid, 'communicator is NULL')
  end subroutine
end program
