// The forms of changes, by verb: what is asked, the columns of what would change, and the words.
const TO = [['earliest', 'the first record'], ['latest', 'the end'], ['offset', 'an offset'], ['shift', 'some records on or back'],
  ['datetime', 'a time'], ['duration', 'so long ago'], ['group', 'what another group has committed'],
  ['current', 'the committed offsets, as they are']];
const VALUE_HINTS = { offset: 'such as 1200', shift: 'such as 100, or -100 for back',
  datetime: 'such as 2026-01-31T10:00:00.000, in UTC', duration: 'such as PT1H30M or P7D', group: 'the other group' };
const FORMATS = [['text', 'text'], ['json', 'JSON'], ['hex', 'hex'], ['null', 'null']];
const KINDS = [['topics', 'a topic'], ['groups', 'a group'], ['brokers', 'a broker'], ['broker-loggers', 'loggers of a broker'],
  ['client-metrics', 'a subscription of client metrics']];
const SCOPES = 'one a line, as TOPIC or TOPIC:0,1';

const text = (name, title, more = {}) => ({ name, title, kind: 'text', ...more });
const number = (name, title, more = {}) => ({ name, title, kind: 'number', least: 0, ...more });
const choice = (name, title, choices, more = {}) => ({ name, title, kind: 'choice', choices, redraws: true, ...more });
const names = (name, title, more = {}) => ({ name, title, kind: 'lines', shape: 'names', ...more });
const pairs = (name, title, more = {}) => ({ name, title, kind: 'lines', shape: 'pairs', hint: 'NAME=VALUE, one a line', ...more });
const required = { isRequired: true };

export const FORMS = {
  'reset-offsets': {
    title: 'Reset offsets', button: 'Reset the offsets', done: 'The offsets are reset.',
    about: 'The group must have no members. An offset outside a partition is moved to its nearest end.',
    start: { to: 'earliest' },
    fields: [text('group', 'Group', required),
      names('topics', 'Topics', { hint: `${SCOPES}; none for all that are committed` }),
      choice('to', 'To', TO, required),
      text('value', 'Value', { ...required, when: values => values.to in VALUE_HINTS, hint: values => VALUE_HINTS[values.to] })],
    columns: [['topic', 'topic'], ['partition', 'partition'], ['current_offset', 'from'], ['new_offset', 'to'], ['remark', 'remark']],
  },
  'delete-offsets': {
    title: 'Delete committed offsets', button: 'Delete the offsets', done: 'The offsets are deleted.',
    about: 'The group must no longer be subscribed to these topics.',
    fields: [text('group', 'Group', required), names('topics', 'Topics', { ...required, hint: SCOPES })],
    columns: [['topic', 'topic'], ['partition', 'partition'], ['current_offset', 'committed']],
    results: [['deleted', 'deleted']],
  },
  'delete-groups': {
    title: 'Delete groups', button: 'Delete', done: 'They are deleted.', isReady: true,
    about: 'Groups without members are deleted with all their offsets.',
    fields: [names('groups', 'Groups', { ...required, hint: 'one a line' })],
    columns: [['group', 'group'], ['type', 'type'], ['state', 'state'], ['offsets', 'offsets']],
    results: [['deleted', 'deleted']],
  },
  'expel-members': {
    title: 'Expel members', button: 'Expel', done: 'They are expelled.',
    about: 'A member is removed at once; its client joins again unless it was stopped.',
    fields: [text('group', 'Group', required), names('members', 'Member ids', { ...required, hint: 'one a line' })],
    columns: [['client_id', 'client'], ['member_id', 'member'], ['host', 'host'], ['partition_count', 'partitions']],
    results: [['removed', 'expelled']],
  },
  'create-topic': {
    title: 'Create a topic', button: 'Create', done: 'It is created.',
    about: 'What is left empty is as the broker has it.',
    fields: [text('topic', 'Name', required), number('partitions', 'Partitions', { least: 1 }),
      number('replication_factor', 'Replicas', { least: 1 }), pairs('configs', 'Settings')],
    columns: [['topic', 'topic'], ['partition_count', 'partitions'], ['replication_factor', 'replicas'], ['configs', 'settings']],
    results: [['created', 'created']],
  },
  'delete-topics': {
    title: 'Delete topics', button: 'Delete', done: 'They are deleted.', isReady: true,
    about: 'Topics are deleted with all their records.',
    fields: [names('topics', 'Topics', { ...required, hint: 'one a line' })],
    columns: [['topic', 'topic'], ['partition_count', 'partitions'], ['records', 'records'], ['groups', 'groups that read it']],
    results: [['deleted', 'deleted']],
  },
  'alter-settings': {
    title: 'Alter settings', button: 'Alter', done: 'They are altered.',
    about: 'All of the changes are made, or none.',
    start: { kind: 'topics' },
    fields: [choice('kind', 'Of', KINDS, required), text('name', 'Name', { ...required, hint: 'the id of a broker' }),
      pairs('set', 'Set'), names('delete', 'Return to the default', { hint: 'names of settings, one a line' })],
    columns: [['key', 'setting'], ['value', 'from'], ['source', 'from there'], ['new_value', 'to'], ['new_source', 'set for']],
    results: [['altered', 'altered']],
  },
  produce: {
    title: 'Produce a record', button: 'Append it', done: 'It is appended.',
    about: 'The record is appended once all replicas in sync have it.',
    start: { partition: 0, key_format: 'null', value_format: 'text', value: '' },
    fields: [text('topic', 'Topic', required), number('partition', 'Partition', required),
      choice('key_format', 'Key as', FORMATS), text('key', 'Key', { keepsEmpty: true, when: values => values.key_format !== 'null' }),
      choice('value_format', 'Value as', FORMATS),
      { name: 'value', title: 'Value', kind: 'lines', keepsEmpty: true, when: values => values.value_format !== 'null' },
      pairs('headers', 'Headers')],
    columns: [['topic', 'topic'], ['partition', 'partition'], ['key_bytes', 'bytes of the key'], ['value_bytes', 'bytes of the value'], ['headers', 'headers']],
    results: [['offset', 'offset']],
  },
  'abort-transaction': {
    title: 'Abort a transaction', button: 'Abort', done: 'It is aborted.', isReady: true,
    about: 'The open transaction ends as aborted, and its producer is fenced.',
    fields: [text('transactional_id', 'Transactional id', required)],
    columns: [['transactional_id', 'transactional id'], ['state', 'state'], ['producer_id', 'producer'], ['producer_epoch', 'epoch'], ['partitions', 'partitions']],
  },
  'abort-hanging-transaction': {
    title: 'Abort a hanging transaction', button: 'Abort by force', done: 'It is aborted.',
    about: 'In one partition, without its coordinator: only for a transaction that nothing else ends.',
    start: { partition: 0 },
    fields: [text('topic', 'Topic', required), number('partition', 'Partition', required),
      number('start_offset', 'First offset of the transaction', required)],
    columns: [['topic', 'topic'], ['partition', 'partition'], ['producer_id', 'producer'], ['producer_epoch', 'epoch'], ['start_offset', 'first offset']],
    results: [['aborted', 'aborted']],
  },
};
