! SPDX-FileCopyrightText: The KnapFormer authors
! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

! KnapFormer in Fortran 2018: plans the work of a group of MPI ranks and moves it. knapformer.h says
! more about what is named alike there.
!
! Procedures take `status` at the end, which becomes knapformer_success or what was wrong; the text is
! knapformer_error_message(). Where it is not given, an error stops the program. `destroy` what was
! created before knapformer_finalize; a copy of an object is the same thing, to be destroyed once.
! Ranks, sequences and rows that plans and layouts name count from 0, as in C.
module knapformer
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only : error_unit, int64, real64
  use knapformer_c
  implicit none
  private

  integer, parameter, public :: knapformer_success = 0
  integer, parameter, public :: knapformer_invalid = 1   ! everything stays usable
  integer, parameter, public :: knapformer_failed = 2    ! the communicator does not: call MPI_Abort
  integer, parameter, public :: knapformer_out_of_memory = 3
  integer, parameter, public :: knapformer_internal = 4

  integer, parameter, public :: knapformer_route = 0, knapformer_reverse_route = 1
  integer, parameter, public :: knapformer_pre_attention = 2, knapformer_post_attention = 3
  integer, parameter, public :: knapformer_route_sequences = 4
  integer, parameter, public :: knapformer_route_sequences_adjoint = 5

  type, bind(C), public :: knapformer_chunk
    integer(c_int64_t) :: rank, first_token, tokens, first_head, heads
  end type

  type, bind(C), public :: knapformer_local_chunk
    integer(c_int64_t) :: sequence, first_row
    type(knapformer_chunk) :: chunk
  end type

  type, bind(C), public :: knapformer_attention_problem
    integer(c_int64_t) :: offset, length, heads, first_head, sequence
  end type

  ! What a plan says. The arrays live as long as the routing.
  type, public :: knapformer_plan
    integer(int64) :: ranks, heads, sequences, hash
    integer(int64), pointer, contiguous :: homes(:), lengths(:), chunk_offsets(:)
    type(knapformer_chunk), pointer, contiguous :: chunks(:)
    real(real64), pointer, contiguous :: work_before(:), work_after(:)           ! of each rank
    integer(int64), pointer, contiguous :: tokens_before(:), tokens_after(:)
    real(real64) :: max_over_mean_before, max_over_mean, lower_bound, lower_bound_gap
    real(real64) :: step_seconds_before, step_seconds
    integer(int64) :: total_tokens, moved_tokens
  end type

  ! What this rank has. The arrays live as long as the routing.
  type, public :: knapformer_layout
    integer(int64) :: home_rows, routed_rows, head_rows, home_sequences, unsplit_head_rows
    type(knapformer_local_chunk), pointer, contiguous :: chunks(:)
    type(knapformer_attention_problem), pointer, contiguous :: problems(:)
  end type

  type, public :: knapformer_communicator
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: create => communicator_create
    procedure :: split => communicator_split
    procedure :: rank => communicator_rank
    procedure :: size => communicator_size
    procedure :: barrier => communicator_barrier
    procedure :: fail => communicator_fail
    procedure :: destroy => communicator_destroy
  end type

  type, public :: knapformer_routing
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: layout => routing_layout
    procedure :: plan => routing_plan
    procedure :: move => routing_move
    procedure :: start_move => routing_start_move
    procedure :: destroy => routing_destroy
  end type

  type, public :: knapformer_request
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: wait => request_wait
  end type

  type, public :: knapformer_pending_routing
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: wait => pending_wait
  end type

  type, public :: knapformer_balancer
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: create => balancer_create
    procedure :: prepare => balancer_prepare
    procedure :: start_prepare => balancer_start_prepare
    procedure :: observe => balancer_observe
    procedure :: get_speeds => balancer_get_speeds
    procedure :: destroy => balancer_destroy
  end type

  public :: knapformer_initialize, knapformer_finalize, knapformer_fence, knapformer_error_message

contains

  function knapformer_error_message() result(message)
    character(:), allocatable :: message
    character(kind=c_char), pointer :: text(:)
    integer :: i
    call c_f_pointer(c_error_message(), text, [c_strlen(c_error_message())])
    allocate(character(size(text)) :: message)
    do i = 1, size(text)
      message(i:i) = text(i)
    end do
  end function

  ! Hands the result of a call over, or stops the program where nobody asks for it.
  subroutine finish(code, status)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: status
    if (present(status)) then
      status = code
    else if (code /= knapformer_success) then
      write (error_unit, '(2a)') 'knapformer: ', knapformer_error_message()
      error stop 2
    end if
  end subroutine

  ! Initialises Kokkos unless somebody has.
  subroutine knapformer_initialize(status)
    integer, intent(out), optional :: status
    call finish(c_initialize(), status)
  end subroutine

  subroutine knapformer_finalize(status)
    integer, intent(out), optional :: status
    call finish(c_finalize(), status)
  end subroutine

  ! Waits for the work that moves have enqueued on a device.
  subroutine knapformer_fence(status)
    integer, intent(out), optional :: status
    call finish(c_fence(c_null_ptr), status)
  end subroutine

  ! Collective over `comm`: a communicator of the module mpi, or the MPI_VAL of one of mpi_f08.
  subroutine communicator_create(this, comm, timeout_seconds, report_seconds, status)
    class(knapformer_communicator), intent(inout) :: this
    integer, intent(in) :: comm
    real(real64), intent(in), optional :: timeout_seconds, report_seconds
    integer, intent(out), optional :: status
    type(c_communicator_options) :: options
    call c_communicator_options_init(options)
    if (present(timeout_seconds)) options%timeout_seconds = timeout_seconds
    if (present(report_seconds)) options%report_seconds = report_seconds
    call finish(c_communicator_create(int(comm, c_int), options, this%handle), status)
  end subroutine

  ! Collective: `group` becomes that of `group_size` consecutive ranks which this one is in.
  subroutine communicator_split(this, group_size, group, status)
    class(knapformer_communicator), intent(in) :: this
    integer, intent(in) :: group_size
    type(knapformer_communicator), intent(inout) :: group
    integer, intent(out), optional :: status
    call finish(c_communicator_split(this%handle, int(group_size, c_int), group%handle), status)
  end subroutine

  integer function communicator_rank(this) result(rank)
    class(knapformer_communicator), intent(in) :: this
    rank = c_communicator_rank(this%handle)
  end function

  integer function communicator_size(this) result(ranks)
    class(knapformer_communicator), intent(in) :: this
    ranks = c_communicator_size(this%handle)
  end function

  subroutine communicator_barrier(this, status)
    class(knapformer_communicator), intent(in) :: this
    integer, intent(out), optional :: status
    call finish(c_communicator_barrier(this%handle), status)
  end subroutine

  ! Not collective: this rank cannot go on, so that all ranks fail. Status is not a success.
  subroutine communicator_fail(this, reason, status)
    class(knapformer_communicator), intent(in) :: this
    character(*), intent(in) :: reason
    integer, intent(out), optional :: status
    call finish(c_communicator_fail(this%handle, reason // c_null_char), status)
  end subroutine

  subroutine communicator_destroy(this)
    class(knapformer_communicator), intent(inout) :: this
    call c_communicator_destroy(this%handle)
  end subroutine

  ! Collective, with the same options on all ranks. See struct knapformer_plan_options and
  ! knapformer_balancer_options.
  subroutine balancer_create(this, group, topology, d_model, gamma, constant, heads, balance, &
      max_tokens_per_rank, max_attention_tokens_per_rank, budget, ranks_per_node, flops, &
      bandwidth_within, bandwidth_between, latency, layers, bytes_per_element, speeds, &
      adapt_to_speed, speed_estimate, status)
    class(knapformer_balancer), intent(inout) :: this
    type(knapformer_communicator), intent(in) :: group
    character(*), intent(in), optional :: topology
    integer(int64), intent(in), optional :: d_model, constant, heads, max_tokens_per_rank
    integer(int64), intent(in), optional :: max_attention_tokens_per_rank, budget, ranks_per_node
    integer(int64), intent(in), optional :: layers, bytes_per_element
    real(real64), intent(in), optional :: gamma, flops, bandwidth_within, bandwidth_between, latency
    real(real64), intent(in), optional, contiguous, target :: speeds(:), speed_estimate(:)
    logical, intent(in), optional :: balance, adapt_to_speed
    integer, intent(out), optional :: status
    type(c_balancer_options) :: options
    character(kind=c_char), allocatable, target :: name(:)
    integer :: i

    call c_balancer_options_init(options)
    if (present(topology)) then
      name = [(topology(i:i), i = 1, len(topology)), c_null_char]
      options%plan%topology = c_loc(name)
    end if
    if (present(d_model)) options%plan%d_model = d_model
    if (present(gamma)) options%plan%gamma = gamma
    if (present(constant)) options%plan%constant = constant
    if (present(heads)) options%plan%heads = heads
    if (present(balance)) options%plan%balance = merge(1, 0, balance)
    if (present(max_tokens_per_rank)) options%plan%max_tokens_per_rank = max_tokens_per_rank
    if (present(max_attention_tokens_per_rank)) then
      options%plan%max_attention_tokens_per_rank = max_attention_tokens_per_rank
    end if
    if (present(budget)) options%plan%budget = budget
    if (present(ranks_per_node)) options%plan%machine%ranks_per_node = ranks_per_node
    if (present(flops)) options%plan%machine%flops = flops
    if (present(bandwidth_within)) options%plan%machine%bandwidth_within = bandwidth_within
    if (present(bandwidth_between)) options%plan%machine%bandwidth_between = bandwidth_between
    if (present(latency)) options%plan%machine%latency = latency
    if (present(layers)) options%plan%machine%layers = layers
    if (present(bytes_per_element)) options%plan%machine%bytes_per_element = bytes_per_element
    if (present(speeds)) then
      if (size(speeds) > 0) options%plan%machine%speeds = c_loc(speeds)
      options%plan%machine%speed_count = size(speeds)
    end if
    if (present(adapt_to_speed)) options%adapt_to_speed = merge(1, 0, adapt_to_speed)
    if (present(speed_estimate)) then
      if (size(speed_estimate) > 0) options%speed_estimate = c_loc(speed_estimate)
      options%speed_estimate_count = size(speed_estimate)
    end if
    call finish(c_balancer_create(group%handle, options, this%handle), status)
  end subroutine

  subroutine balancer_destroy(this)
    class(knapformer_balancer), intent(inout) :: this
    call c_balancer_destroy(this%handle)
  end subroutine

  ! Collective. Lengths are the tokens of each of this rank's sequences, of which there may be none;
  ! costs, on all ranks or on none, their work in whole numbers.
  subroutine balancer_prepare(this, lengths, routing, costs, status)
    class(knapformer_balancer), intent(in) :: this
    integer(int64), intent(in), contiguous :: lengths(:)
    type(knapformer_routing), intent(inout) :: routing
    integer(int64), intent(in), contiguous, optional :: costs(:)
    integer, intent(out), optional :: status
    type(knapformer_pending_routing) :: pending
    integer :: code
    call balancer_start_prepare(this, lengths, pending, costs, code)
    if (code == knapformer_success) code = c_pending_routing_wait(pending%handle, routing%handle)
    call finish(int(code, c_int), status)
  end subroutine

  ! The same, started. Copies the arrays.
  subroutine balancer_start_prepare(this, lengths, pending, costs, status)
    class(knapformer_balancer), intent(in) :: this
    integer(int64), intent(in), contiguous :: lengths(:)
    type(knapformer_pending_routing), intent(inout) :: pending
    integer(int64), intent(in), contiguous, optional :: costs(:)
    integer, intent(out), optional :: status
    integer(int64) :: cost_count
    cost_count = 0
    if (present(costs)) cost_count = size(costs, kind=int64)
    call finish(c_balancer_start_prepare(this%handle, size(lengths, kind=int64), lengths, &
        cost_count, costs, pending%handle), status)
  end subroutine

  subroutine pending_wait(this, routing, status)
    class(knapformer_pending_routing), intent(inout) :: this
    type(knapformer_routing), intent(inout) :: routing
    integer, intent(out), optional :: status
    call finish(c_pending_routing_wait(this%handle, routing%handle), status)
  end subroutine

  ! This rank was busy for so many seconds, waiting not counted, with what `routing` gave it.
  subroutine balancer_observe(this, routing, busy_seconds, status)
    class(knapformer_balancer), intent(in) :: this
    type(knapformer_routing), intent(in) :: routing
    real(real64), intent(in) :: busy_seconds
    integer, intent(out), optional :: status
    call finish(c_balancer_observe(this%handle, routing%handle, busy_seconds), status)
  end subroutine

  ! How fast each rank is, with a mean of 1.
  subroutine balancer_get_speeds(this, speeds, status)
    class(knapformer_balancer), intent(in) :: this
    real(real64), intent(out), contiguous :: speeds(:)
    integer, intent(out), optional :: status
    call finish(c_balancer_get_speeds(this%handle, size(speeds, kind=c_int64_t), speeds), status)
  end subroutine

  subroutine routing_layout(this, layout, status)
    class(knapformer_routing), intent(in) :: this
    type(knapformer_layout), intent(out) :: layout
    integer, intent(out), optional :: status
    type(c_layout) :: c
    integer(c_int) :: code
    code = c_routing_get_layout(this%handle, c)
    call finish(code, status)
    if (code /= knapformer_success) return
    layout%home_rows = c%home_rows
    layout%routed_rows = c%routed_rows
    layout%head_rows = c%head_rows
    layout%home_sequences = c%home_sequences
    layout%unsplit_head_rows = c%unsplit_head_rows
    call c_f_pointer(c%chunks, layout%chunks, [c%chunk_count])
    call c_f_pointer(c%problems, layout%problems, [c%problem_count])
  end subroutine

  subroutine routing_plan(this, plan, status)
    class(knapformer_routing), intent(in) :: this
    type(knapformer_plan), intent(out) :: plan
    integer, intent(out), optional :: status
    type(c_plan_arrays) :: arrays
    type(c_plan_report) :: report
    integer(c_int) :: code
    code = c_plan_get_arrays(c_routing_get_plan(this%handle), arrays)
    if (code == knapformer_success) then
      code = c_plan_get_report(c_routing_get_plan(this%handle), report)
    end if
    call finish(code, status)
    if (code /= knapformer_success) return
    plan%ranks = arrays%ranks
    plan%heads = arrays%heads
    plan%sequences = arrays%sequences
    plan%hash = arrays%hash
    call c_f_pointer(arrays%homes, plan%homes, [arrays%sequences])
    call c_f_pointer(arrays%lengths, plan%lengths, [arrays%sequences])
    call c_f_pointer(arrays%chunk_offsets, plan%chunk_offsets, [arrays%sequences + 1])
    call c_f_pointer(arrays%chunks, plan%chunks, [arrays%chunk_count])
    call c_f_pointer(report%work_before, plan%work_before, [arrays%ranks])
    call c_f_pointer(report%work_after, plan%work_after, [arrays%ranks])
    call c_f_pointer(report%tokens_before, plan%tokens_before, [arrays%ranks])
    call c_f_pointer(report%tokens_after, plan%tokens_after, [arrays%ranks])
    plan%max_over_mean_before = report%max_over_mean_before
    plan%max_over_mean = report%max_over_mean
    plan%lower_bound = report%lower_bound
    plan%lower_bound_gap = report%lower_bound_gap
    plan%step_seconds_before = report%step_seconds_before
    plan%step_seconds = report%step_seconds
    plan%total_tokens = report%total_tokens
    plan%moved_tokens = report%moved_tokens
  end subroutine

  ! Collective. Moves up to four arrays of any types in one exchange. Their last dimension counts
  ! rows: as many as the layout says. Tokens of pre- and post-attention are (d_head, heads, rows),
  ! head buffers (d_head, head_rows). real(c_float) and real(c_double) can be summed.
  subroutine routing_move(this, movement, from, to, from2, to2, from3, to3, from4, to4, status)
    class(knapformer_routing), intent(in) :: this
    integer, intent(in) :: movement
    type(*), dimension(..), intent(in) :: from
    type(*), dimension(..), intent(inout) :: to
    type(*), dimension(..), intent(in), optional :: from2, from3, from4
    type(*), dimension(..), intent(inout), optional :: to2, to3, to4
    integer, intent(out), optional :: status
    type(c_ptr) :: request
    integer(c_int) :: code
    code = c_start_move(this%handle, int(movement, c_int), request, from, to, from2, to2, &
        from3, to3, from4, to4)
    if (code == knapformer_success) code = c_request_wait(request)
    call finish(code, status)
  end subroutine

  ! The same, started: arrays have the asynchronous attribute, and stay until `request` has been
  ! waited for.
  subroutine routing_start_move(this, movement, request, from, to, from2, to2, from3, to3, from4, &
      to4, status)
    class(knapformer_routing), intent(in) :: this
    integer, intent(in) :: movement
    type(knapformer_request), intent(inout) :: request
    type(*), dimension(..), intent(in), asynchronous :: from
    type(*), dimension(..), intent(inout), asynchronous :: to
    type(*), dimension(..), intent(in), optional, asynchronous :: from2, from3, from4
    type(*), dimension(..), intent(inout), optional, asynchronous :: to2, to3, to4
    integer, intent(out), optional :: status
    call finish(c_start_move(this%handle, int(movement, c_int), request%handle, from, to, &
        from2, to2, from3, to3, from4, to4), status)
  end subroutine

  subroutine request_wait(this, status)
    class(knapformer_request), intent(inout) :: this
    integer, intent(out), optional :: status
    call finish(c_request_wait(this%handle), status)
  end subroutine

  subroutine routing_destroy(this)
    class(knapformer_routing), intent(inout) :: this
    call c_routing_destroy(this%handle)
  end subroutine
end module
