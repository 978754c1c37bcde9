! SPDX-FileCopyrightText: The KnapFormer authors
! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

! The C interface as Fortran sees it; see knapformer.h and knapformer_plan.h. Programs use the module
! `knapformer`, which is made of it.
module knapformer_c
  use, intrinsic :: iso_c_binding
  implicit none

  type, bind(C) :: c_machine
    integer(c_int64_t) :: ranks_per_node
    real(c_double) :: flops, bandwidth_within, bandwidth_between, latency
    integer(c_int64_t) :: layers, bytes_per_element
    type(c_ptr) :: speeds
    integer(c_int64_t) :: speed_count
  end type

  type, bind(C) :: c_plan_options
    integer(c_int64_t) :: struct_size
    type(c_ptr) :: topology
    integer(c_int64_t) :: d_model
    real(c_double) :: gamma
    integer(c_int64_t) :: constant, heads, balance
    type(c_machine) :: machine
    integer(c_int64_t) :: max_tokens_per_rank, max_attention_tokens_per_rank, budget
  end type

  type, bind(C) :: c_balancer_options
    integer(c_int64_t) :: struct_size
    type(c_plan_options) :: plan
    integer(c_int64_t) :: adapt_to_speed
    type(c_ptr) :: speed_estimate
    integer(c_int64_t) :: speed_estimate_count
  end type

  type, bind(C) :: c_communicator_options
    integer(c_int64_t) :: struct_size, transport
    real(c_double) :: report_seconds, timeout_seconds
    type(c_funptr) :: log
    type(c_ptr) :: log_context
    integer(c_int64_t) :: message_bytes, direct, nccl_peers
  end type

  type, bind(C) :: c_plan_arrays
    integer(c_int64_t) :: ranks, heads, sequences, chunk_count
    type(c_ptr) :: homes, lengths, chunk_offsets, chunks
    integer(c_int64_t) :: hash
  end type

  type, bind(C) :: c_plan_report
    integer(c_int64_t) :: ranks
    type(c_ptr) :: work_before, work_after, tokens_before, tokens_after, attention_tokens, seconds
    real(c_double) :: max_over_mean_before, max_over_mean, max_over_min_before, max_over_min
    real(c_double) :: lower_bound, lower_bound_gap, elastic_lower_bound, elastic_lower_bound_gap
    integer(c_int64_t) :: total_tokens, moved_tokens, crossed_tokens
    real(c_double) :: ulysses_tokens, ulysses_bytes_per_layer
    real(c_double) :: step_seconds_before, step_seconds, ideal_seconds, step_over_ideal, plan_seconds
  end type

  type, bind(C) :: c_layout
    integer(c_int64_t) :: home_rows, routed_rows, head_rows, home_sequences, chunk_count
    type(c_ptr) :: chunks
    integer(c_int64_t) :: problem_count
    type(c_ptr) :: problems
    integer(c_int64_t) :: unsplit_head_rows, rows_sent, rows_returned, head_rows_sent
    integer(c_int64_t) :: head_rows_returned, sequence_rows_sent, sequence_rows_returned
  end type

  interface
    function c_error_message() bind(C, name='knapformer_error_message')
      import
      type(c_ptr) :: c_error_message
    end function

    pure function c_strlen(text) bind(C, name='strlen')
      import
      type(c_ptr), value :: text
      integer(c_size_t) :: c_strlen
    end function

    function c_initialize() bind(C, name='knapformer_initialize') result(status)
      import
      integer(c_int) :: status
    end function

    function c_finalize() bind(C, name='knapformer_finalize') result(status)
      import
      integer(c_int) :: status
    end function

    function c_fence(exec) bind(C, name='knapformer_exec_fence') result(status)
      import
      type(c_ptr), value :: exec
      integer(c_int) :: status
    end function

    subroutine c_communicator_options_init(options) &
        bind(C, name='knapformer_communicator_options_init')
      import
      type(c_communicator_options), intent(out) :: options
    end subroutine

    ! MPI_Fint is a default integer, and with that an int.
    function c_communicator_create(comm, options, communicator) &
        bind(C, name='knapformer_communicator_create_f') result(status)
      import
      integer(c_int), value :: comm
      type(c_communicator_options), intent(in) :: options
      type(c_ptr), intent(out) :: communicator
      integer(c_int) :: status
    end function

    function c_communicator_split(communicator, group_size, group) &
        bind(C, name='knapformer_communicator_split') result(status)
      import
      type(c_ptr), value :: communicator
      integer(c_int), value :: group_size
      type(c_ptr), intent(out) :: group
      integer(c_int) :: status
    end function

    subroutine c_communicator_destroy(communicator) &
        bind(C, name='knapformer_communicator_destroy')
      import
      type(c_ptr), intent(inout) :: communicator
    end subroutine

    function c_communicator_rank(communicator) bind(C, name='knapformer_communicator_rank') &
        result(rank)
      import
      type(c_ptr), value :: communicator
      integer(c_int) :: rank
    end function

    function c_communicator_size(communicator) bind(C, name='knapformer_communicator_size') &
        result(ranks)
      import
      type(c_ptr), value :: communicator
      integer(c_int) :: ranks
    end function

    function c_communicator_barrier(communicator) &
        bind(C, name='knapformer_communicator_barrier') result(status)
      import
      type(c_ptr), value :: communicator
      integer(c_int) :: status
    end function

    function c_communicator_fail(communicator, reason) &
        bind(C, name='knapformer_communicator_fail') result(status)
      import
      type(c_ptr), value :: communicator
      character(kind=c_char), intent(in) :: reason(*)
      integer(c_int) :: status
    end function

    subroutine c_plan_options_init(options) bind(C, name='knapformer_plan_options_init')
      import
      type(c_plan_options), intent(out) :: options
    end subroutine

    subroutine c_balancer_options_init(options) bind(C, name='knapformer_balancer_options_init')
      import
      type(c_balancer_options), intent(out) :: options
    end subroutine

    function c_balancer_create(communicator, options, balancer) &
        bind(C, name='knapformer_balancer_create') result(status)
      import
      type(c_ptr), value :: communicator
      type(c_balancer_options), intent(in) :: options
      type(c_ptr), intent(out) :: balancer
      integer(c_int) :: status
    end function

    subroutine c_balancer_destroy(balancer) bind(C, name='knapformer_balancer_destroy')
      import
      type(c_ptr), intent(inout) :: balancer
    end subroutine

    ! In arrays.cpp: takes the number of costs too.
    function c_balancer_start_prepare(balancer, sequences, lengths, cost_count, costs, pending) &
        bind(C, name='knapformer_fortran_start_prepare') result(status)
      import
      type(c_ptr), value :: balancer
      integer(c_int64_t), value :: sequences, cost_count
      integer(c_int64_t), intent(in) :: lengths(*)
      integer(c_int64_t), intent(in), optional :: costs(*)
      type(c_ptr), intent(out) :: pending
      integer(c_int) :: status
    end function

    function c_pending_routing_wait(pending, routing) &
        bind(C, name='knapformer_pending_routing_wait') result(status)
      import
      type(c_ptr), intent(inout) :: pending
      type(c_ptr), intent(out) :: routing
      integer(c_int) :: status
    end function

    function c_balancer_observe(balancer, routing, busy_seconds) &
        bind(C, name='knapformer_balancer_observe') result(status)
      import
      type(c_ptr), value :: balancer, routing
      real(c_double), value :: busy_seconds
      integer(c_int) :: status
    end function

    function c_balancer_get_speeds(balancer, count, speeds) &
        bind(C, name='knapformer_balancer_get_speeds') result(status)
      import
      type(c_ptr), value :: balancer
      integer(c_int64_t), value :: count
      real(c_double), intent(out) :: speeds(*)
      integer(c_int) :: status
    end function

    subroutine c_routing_destroy(routing) bind(C, name='knapformer_routing_destroy')
      import
      type(c_ptr), intent(inout) :: routing
    end subroutine

    function c_routing_get_plan(routing) bind(C, name='knapformer_routing_get_plan') result(plan)
      import
      type(c_ptr), value :: routing
      type(c_ptr) :: plan
    end function

    function c_routing_get_layout(routing, layout) &
        bind(C, name='knapformer_routing_get_layout') result(status)
      import
      type(c_ptr), value :: routing
      type(c_layout), intent(out) :: layout
      integer(c_int) :: status
    end function

    function c_plan_get_arrays(plan, arrays) bind(C, name='knapformer_plan_get_arrays') &
        result(status)
      import
      type(c_ptr), value :: plan
      type(c_plan_arrays), intent(out) :: arrays
      integer(c_int) :: status
    end function

    function c_plan_get_report(plan, report) bind(C, name='knapformer_plan_get_report') &
        result(status)
      import
      type(c_ptr), value :: plan
      type(c_plan_report), intent(out) :: report
      integer(c_int) :: status
    end function

    ! In arrays.cpp: takes arrays as they are, of any type and rank.
    function c_start_move(routing, movement, request, from, to, from2, to2, from3, to3, from4, to4) &
        bind(C, name='knapformer_fortran_start_move') result(status)
      import
      type(c_ptr), value :: routing
      integer(c_int), value :: movement
      type(c_ptr), intent(out) :: request
      type(*), dimension(..), intent(in) :: from
      type(*), dimension(..), intent(inout) :: to
      type(*), dimension(..), intent(in), optional :: from2, from3, from4
      type(*), dimension(..), intent(inout), optional :: to2, to3, to4
      integer(c_int) :: status
    end function

    function c_request_wait(request) bind(C, name='knapformer_request_wait') result(status)
      import
      type(c_ptr), intent(inout) :: request
      integer(c_int) :: status
    end function
  end interface
end module
